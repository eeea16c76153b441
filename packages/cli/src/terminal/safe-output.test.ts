import fc from 'fast-check'
import { expect, test } from 'vitest'
import { createSafeOutput } from './safe-output.ts'

const clean = (text: string) => Buffer.from(createSafeOutput()(Buffer.from(text, 'latin1'))).toString('latin1')

test('clipboard, titles, queries, modes and strings are dropped; text, colours and cursor movement pass', () => {
  expect(clean('a\x1b]52;c;aGk=\x07b')).toBe('ab')
  expect(clean('a\x1b]0;title\x1b\\b\x1bP1$r\x1b\\c\x1b_x\x1b\\d\x1b^y\x1b\\e')).toBe('abcde')
  expect(clean('\x1b[31mred\x1b[0m \x1b[2K\x1b[1A\x1b[10;5H')).toBe('\x1b[31mred\x1b[0m \x1b[2K\x1b[1A\x1b[10;5H')
  expect(clean('\x1b[6n\x1b[c\x1b[?1049h\x1b[21t\x1bc\x1b(0x')).toBe('x')
  expect(clean('tab\tline\r\nbell\x07\x00\x05end')).toBe('tab\tline\r\nbell\x07end')
})

test('sequences that change what keys, mouse or paste send, or that make the terminal answer, are dropped', () => {
  for (const hostile of [
    ...['\x1b[>4;2m', '\x1b[>4m', '\x1b[?4m', '\x1b[>1u', '\x1b[=1;1u', '\x1b[<u', '\x1b[?u'], // keys of xterm and kitty
    ...['\x1b[?1h', '\x1b[?9h', '\x1b[?1000h', '\x1b[?1004h', '\x1b[?1006h', '\x1b[?2004h', '\x1b=', '\x1b>'],
    ...['\x05', '\x1b\x05', '\x1b[\x05', '\x1bZ', '\x1b[>c', '\x1b[=c', '\x1b[?6n', '\x1b[ A', '\x1b[!p', '\x1b[1 q'],
  ])
    expect(clean(`a${hostile}b`)).toBe('ab')
})

test('bytes that are not ASCII pass unchanged', () => {
  const bytes = Buffer.from('grüße 漢字')
  expect(Buffer.from(createSafeOutput()(bytes))).toEqual(bytes)
})

test('8-bit control characters are dropped, encoded or not and wherever they are split, and their neighbours pass', () => {
  const cleanUtf8 = (text: string) => Buffer.from(createSafeOutput()(Buffer.from(text))).toString()
  expect(cleanUtf8('a\u009d52;c;aGk=\u009cb\u009b6n\u0085c\u00a0d\u00bfe')).toBe('a52;c;aGk=b6nc\u00a0d\u00bfe')
  expect(clean('a\x9b6n\x90b\xc3\x9bc\xe2\x82\xacd\xf0\x9f\x99\x82e')).toBe('a6nb\xc3\x9bc\xe2\x82\xacd\xf0\x9f\x99\x82e')
  expect(cleanUtf8('\u001b[\u009dm52;c;aGk=\u0007')).toBe('m52;c;aGk=\u0007')
  const filter = createSafeOutput()
  expect(
    ['\xc2', '\x9b', '6n', '\xc2', '\xa0'].map(p => Buffer.from(filter(Buffer.from(p, 'latin1'))).toString('latin1')),
  ).toEqual(['', '', '6n', '', '\xc2\xa0'])
})

test('no string, query or mode change passes, for any bytes split anywhere', () => {
  const piece = fc.oneof(
    fc.constantFrom(
      '\x1b',
      ']',
      '[',
      '?',
      '52;c;',
      '\x07',
      '\\',
      'P',
      'm',
      'h',
      'n',
      'u',
      '=',
      '>',
      '<',
      '\x05',
      '6',
      '_',
      'text',
      '\x9b',
      '\xc2',
      '\xe2',
    ),
    fc.string({ maxLength: 3 }),
  )
  fc.assert(
    fc.property(fc.array(piece, { maxLength: 40 }), pieces => {
      const whole = clean(pieces.join(''))
      const filter = createSafeOutput()
      const cut = pieces.map(p => Buffer.from(filter(Buffer.from(p, 'latin1'))).toString('latin1')).join('')
      expect(cut).toBe(whole)
      expect(whole).not.toMatch(/\xc2[\x80-\x9f]/)
      // biome-ignore lint/suspicious/noControlCharactersInRegex: sequences begin with ESC
      expect(whole.replace(/\x1b\[[\d;:]*[ABCDEFGHJKfm]/g, '')).not.toMatch(/[\x1b\x05]/)
    }),
  )
})
