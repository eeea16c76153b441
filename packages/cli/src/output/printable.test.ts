import { expect, test } from 'vitest'
import { printable, printableLines } from './printable.ts'
import { table } from './table.ts'

test('control characters and characters that hide or reorder text are shown as escapes', () => {
  expect(printable('\x1b]52;c;aGk=\x07a\r\nb\x00\x9b31m')).toBe('\\x1b]52;c;aGk=\\x07a\\x0d\\nb\\x00\\x9b31m')
  expect(printable('\u202Egnp.exe \u200Bx')).toBe('\\u202egnp.exe \\u200bx')
  expect(printable('grüße 漢字 😀')).toBe('grüße 漢字 😀')
  expect(printableLines('a\tb\x1b[2J\nc')).toBe('a\tb\\x1b[2J\nc')
})

test('a table is aligned, and its cells are safe to print', () => {
  const shown = table(
    ['ID', 'NAME'],
    [
      ['1', 'a\x1b[31m'],
      ['22', 'b'],
    ],
    process.stdout,
  )
  expect(shown.split('\n').slice(1)).toEqual(['1   a\\x1b[31m', '22  b', ''])
})
