import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { pieces } from '../secrets.fixture.ts'
import { compilePatterns } from './patterns.ts'
import { createReplacer, replaceInBuffer } from './replace.ts'

type Pairs = readonly (readonly [from: string, to: string])[]
const compile = (pairs: Pairs) =>
  compilePatterns(pairs.map(([from, to]) => ({ from: Buffer.from(from, 'latin1'), to: Buffer.from(to, 'latin1') })))
const replace = (pairs: Pairs, text: string) => replaceInBuffer(compile(pairs), Buffer.from(text, 'latin1')).toString('latin1')

/** The definition, without any cleverness: at each position the longest pattern. */
function simple(pairs: Pairs, text: string): string {
  const byLength = pairs.toSorted(([a], [b]) => b.length - a.length)
  let result = ''
  for (let i = 0; i < text.length; ) {
    const found = byLength.find(([from]) => text.startsWith(from, i))
    result += found === undefined ? text[i] : found[1]
    i += found === undefined ? 1 : found[0].length
  }
  return result
}

function inPieces(pairs: Pairs, text: string, cuts: readonly number[]): string {
  const replacer = createReplacer(compile(pairs))
  const parts = pieces(Buffer.from(text, 'latin1'), cuts).map(piece => replacer.push(piece))
  return Buffer.concat([...parts, replacer.end()]).toString('latin1')
}

describe('replacement', () => {
  it('takes the first match, and of those the longest', () => {
    expect(
      replace(
        [
          ['abc', '1'],
          ['abcdef', '2'],
          ['bcdefg', '3'],
        ],
        'abcdefg abcde bcdefg',
      ),
    ).toBe('2g 1de 3')
    expect(replace([['aaa', 'x']], 'aaaaaaaa')).toBe('xxaa')
  })

  it('finds a pattern that begins inside of a failed one', () => {
    expect(
      replace(
        [
          ['xabcy', '1'],
          ['abc', '2'],
        ],
        'xabcz',
      ),
    ).toBe('x2z')
  })

  it('takes the first of two replacements for the same bytes', () => {
    expect(
      replace(
        [
          ['abc', '1'],
          ['abc', '2'],
        ],
        'abc',
      ),
    ).toBe('1')
  })

  it('refuses patterns of less than two bytes', () => {
    expect(() => compile([['a', 'b']])).toThrow(/two bytes/)
    expect(() => compile([])).toThrow(/two bytes/)
  })

  it('passes on at once what ends in a character that no token has', () => {
    const replacer = createReplacer(compile([['secret', 'xxxxxx']]))
    const push = (text: string) => replacer.push(Buffer.from(text)).toString()
    expect(push('data: hello\n\n')).toBe('data: hello\n\n')
    expect(push('{"a":"sec"}')).toBe('{"a":"sec"}')
    expect(push('a sec')).toBe('a ')
    expect(push('ret\n')).toBe('xxxxxx\n')
    expect(push('word')).toBe('')
    expect(replacer.end().toString()).toBe('word')
  })

  it('does not tell anything of a value by how much it holds back', () => {
    const value = fc.stringMatching(/^[a-c]{8}$/)
    const data = fc.array(fc.stringMatching(/^[a-c \n]{0,12}$/), { maxLength: 8 })
    fc.assert(
      fc.property(value, value, data, (one, other, chunks) => {
        const text = chunks.join('')
        fc.pre(!text.includes(one) && !text.includes(other))
        const sizes = (from: string) => {
          const replacer = createReplacer(compile([[from, 'xxxxxxxx']]))
          return chunks.map(chunk => replacer.push(Buffer.from(chunk)).length)
        }
        expect(sizes(one)).toEqual(sizes(other))
      }),
      { numRuns: 1000 },
    )
  })

  it('is what its definition says, for every division into chunks', () => {
    // Two letters make matches, overlaps and partial matches likely.
    const word = fc.stringMatching(/^[ab]{2,6}$/)
    const pairs = fc.uniqueArray(fc.tuple(word, fc.stringMatching(/^[XY]{0,7}$/)), {
      minLength: 1,
      maxLength: 4,
      selector: ([from]) => from,
    })
    fc.assert(
      fc.property(pairs, fc.stringMatching(/^[abc]{0,60}$/), fc.array(fc.nat(), { maxLength: 20 }), (patterns, text, cuts) => {
        const expected = simple(patterns, text)
        expect(replace(patterns, text)).toBe(expected)
        expect(inPieces(patterns, text, cuts)).toBe(expected)
        for (let cut = 0; cut <= text.length; cut++) expect(inPieces(patterns, text, [cut])).toBe(expected)
        expect(
          inPieces(
            patterns,
            text,
            [...text].map((_, i) => i),
          ),
        ).toBe(expected)
      }),
      { numRuns: 500 },
    )
  })

  it('finds patterns longer than a table entry can skip, in any bytes', () => {
    const long = fc.uint8Array({ minLength: 300, maxLength: 900 })
    fc.assert(
      fc.property(long, fc.uint8Array(), fc.uint8Array(), fc.array(fc.nat(), { maxLength: 6 }), (value, before, after, cuts) => {
        const [from, prefix, suffix] = [value, before, after].map(bytes => Buffer.from(bytes).toString('latin1'))
        const pairs: Pairs = [[from ?? '', 'surrogate']]
        const text = `${prefix}${from}${suffix}${from}`
        expect(inPieces(pairs, text, cuts)).toBe(simple(pairs, text))
      }),
    )
  })
})
