import { expect, test } from 'vitest'
import { hanging, wrapLine, wrapText } from './wrap.ts'

test('lines break at spaces, and a word that is too long stays whole', () => {
  expect(wrapLine('one two three', 7)).toEqual(['one two', 'three'])
  expect(wrapLine('a /very/long/path b', 6)).toEqual(['a', '/very/long/path', 'b'])
  expect(wrapLine('', 6)).toEqual([''])
})

test('later lines are indented under the first one', () => {
  expect(hanging('fix: ', 'aaaa bbbb cccc dddd eeee', 25)).toBe('fix: aaaa bbbb cccc dddd\n     eeee\n')
})

test('paragraphs are wrapped, and lines that begin with a space are kept', () => {
  expect(wrapText('one\ntwo three\n\n  an   example\nend', 9)).toBe('one two\nthree\n\n  an   example\nend')
})
