import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { cleanOutput, OutputCleaner } from './clean-output.ts'

const whole = (bytes: Uint8Array, isRaw = false) => inPieces(bytes, [], isRaw)
const clean = (text: string) => whole(Buffer.from(text))

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
  it('converts the terminal’s line ends and keeps carriage returns that the program printed', () => {
    expect(clean('a\r\nb\r\n')).toBe('a\nb\n')
    expect(clean('10%\r20%\r\n')).toBe('10%\r20%\n')
    expect(clean('dos\r\r\n')).toBe('dos\r\n')
    expect(clean('end\r')).toBe('end\r')
  })

  it('removes colours, cursor movement, titles and charset choices', () => {
    expect(clean('\x1b[1;31mred\x1b[0m \x1b[2K\x1b]0;title\x07x\x1b]8;;http://a\x1b\\y\x1b(Bz\x1b7\x1b8\x1b=')).toBe('red xyz')
    expect(clean('\x1bP1$r0m\x1b\\after')).toBe('after')
  })

  it('keeps the text after an unterminated escape sequence', () => {
    expect(clean('\x1b]0;no end\r\nimportant\r\n')).toBe(']0;no end\nimportant\n')
    expect(clean(`\x1b]${'x'.repeat(5000)}!`)).toBe(`]${'x'.repeat(5000)}!`)
    expect(clean('\x1b[12\nx')).toBe('[12\nx')
    expect(clean('\x1b\x1b[0mx')).toBe('x')
  })

  it('replaces bytes that are not UTF-8 and keeps a byte order mark', () => {
    expect(whole(Buffer.from([0x61, 0xff, 0x62, 0xe2, 0x82]))).toBe('a\ufffdb\ufffd')
    expect(whole(Buffer.from('\ufeffx'))).toBe('\ufeffx')
  })

  it('keeps escapes and returns when raw output is asked for', () => {
    expect(whole(Buffer.from('\x1b[1ma\r\n'), true)).toBe('\x1b[1ma\r\n')
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
          '\u009b',
          '(',
        ),
        fc.string(),
      ),
      {
        maxLength: 40,
      },
    )
    .map(parts => Buffer.from(parts.join('')))

  it('gives the same text however the bytes are split', () => {
    fc.assert(
      fc.property(
        fc.oneof(hostile, fc.uint8Array({ maxLength: 200 })),
        fc.array(fc.nat(400), { maxLength: 12 }),
        fc.boolean(),
        (bytes, cuts, isRaw) => {
          expect(inPieces(bytes, cuts, isRaw)).toBe(whole(bytes, isRaw))
        },
      ),
      { numRuns: 3000 },
    )
  })

  it('gives the same text when a long control string is split', () => {
    fc.assert(
      fc.property(fc.nat(4200), fc.nat(4200), fc.boolean(), (length, cut, ends) => {
        const bytes = Buffer.from(`a\x1b]${'x'.repeat(length)}${ends ? '\x07' : ''}b\x1b[0m`)
        expect(inPieces(bytes, [cut], false)).toBe(whole(bytes))
      }),
      { numRuns: 300 },
    )
  })

  it('removes the 8-bit controls, which some terminals obey', () => {
    expect(clean('a\u009b31mb\u009d0;t\u009cc\u0085d\u00a0é')).toBe('a31mb0;tcd\u00a0é')
    expect(clean('\x1b]no \u009b end\n')).toBe(']no  end\n')
  })

  it.each(['\x1b', '\x1b[', '\x1b]0;', '\x1b]\x1b', '\u009b', 'x'])(
    'of a megabyte of %j takes linear time and does not block the event loop',
    async piece => {
      const bytes = Buffer.from(piece.repeat(2 ** 20 / piece.length))
      let turns = 0
      let isOver = false
      const count = () => {
        turns++
        if (!isOver) setImmediate(count)
      }
      setImmediate(count)
      const text = await cleanOutput(bytes, false)
      isOver = true
      expect(turns).toBeGreaterThanOrEqual(Math.floor(bytes.length / 2 ** 18) - 1)
      expect(text).toBe(whole(bytes))
    },
  )
})
