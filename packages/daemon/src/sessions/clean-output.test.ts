import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { cleanOutput, OutputCleaner } from './clean-output.ts'

const clean = (text: string) => cleanOutput(Buffer.from(text), false)

function inPieces(bytes: Uint8Array, cuts: number[], isRaw: boolean): string {
  const cleaner = new OutputCleaner(isRaw)
  let text = ''
  let from = 0
  for (const cut of [...cuts.map(c => c % (bytes.length + 1)), bytes.length].sort((a, b) => a - b)) {
    text += cleaner.push(bytes.subarray(from, cut))
    from = cut
  }
  return text + cleaner.end()
}

describe('clean output', () => {
  it('undoes the line ends of the terminal and keeps returns that the program printed', () => {
    expect(clean('a\r\nb\r\n')).toBe('a\nb\n')
    expect(clean('10%\r20%\r\n')).toBe('10%\r20%\n')
    expect(clean('dos\r\r\n')).toBe('dos\r\n')
    expect(clean('end\r')).toBe('end\r')
  })

  it('removes colours, cursor movement, titles and charset choices', () => {
    expect(clean('\x1b[1;31mred\x1b[0m \x1b[2K\x1b]0;title\x07x\x1b]8;;http://a\x1b\\y\x1b(Bz\x1b7\x1b8\x1b=')).toBe('red xyz')
    expect(clean('\x1bP1$r0m\x1b\\after')).toBe('after')
  })

  it('does not lose what follows an escape that never ends', () => {
    expect(clean('\x1b]0;no end\r\nimportant\r\n')).toBe(']0;no end\nimportant\n')
    expect(clean(`\x1b]${'x'.repeat(5000)}!`)).toBe(`]${'x'.repeat(5000)}!`)
    expect(clean('\x1b[12\nx')).toBe('[12\nx')
    expect(clean('\x1b\x1b[0mx')).toBe('x')
  })

  it('replaces bytes that are not UTF-8 and keeps a byte order mark', () => {
    expect(cleanOutput(Buffer.from([0x61, 0xff, 0x62, 0xe2, 0x82]), false)).toBe('a\ufffdb\ufffd')
    expect(cleanOutput(Buffer.from('\ufeffx'), false)).toBe('\ufeffx')
  })

  it('keeps escapes and returns when raw output is asked for', () => {
    expect(cleanOutput(Buffer.from('\x1b[1ma\r\n'), true)).toBe('\x1b[1ma\r\n')
  })

  const hostile = fc
    .array(
      fc.oneof(
        fc.constantFrom(
          '\x1b',
          '\x1b[',
          '\x1b]',
          '\x1b]0;t',
          '\x07',
          '\x1b\\',
          '\r',
          '\n',
          '\r\n',
          'm',
          '1;2',
          'é',
          '€',
          '😀',
          '\x1bP',
          '(',
        ),
        fc.string(),
      ),
      {
        maxLength: 40,
      },
    )
    .map(parts => Buffer.from(parts.join('')))

  it('gives the same text however the bytes are cut', () => {
    fc.assert(
      fc.property(
        fc.oneof(hostile, fc.uint8Array({ maxLength: 200 })),
        fc.array(fc.nat(400), { maxLength: 12 }),
        fc.boolean(),
        (bytes, cuts, isRaw) => {
          expect(inPieces(bytes, cuts, isRaw)).toBe(cleanOutput(bytes, isRaw))
        },
      ),
      { numRuns: 3000 },
    )
  })

  it('gives the same text when a long control string is cut', () => {
    fc.assert(
      fc.property(fc.nat(4200), fc.nat(4200), fc.boolean(), (length, cut, ends) => {
        const bytes = Buffer.from(`a\x1b]${'x'.repeat(length)}${ends ? '\x07' : ''}b\x1b[0m`)
        expect(inPieces(bytes, [cut], false)).toBe(cleanOutput(bytes, false))
      }),
      { numRuns: 300 },
    )
  })

  it('takes no longer than linear in what it is given', () => {
    const started = performance.now()
    cleanOutput(Buffer.from('\x1b['.repeat(500_000)), false)
    cleanOutput(Buffer.from('\x1b]0;'.repeat(250_000)), false)
    expect(performance.now() - started).toBeLessThan(5000)
  })
})
