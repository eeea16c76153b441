import { expect, test } from 'vitest'
import { hanging, wrapLine, wrapText } from './wrap.ts'

test('lines break at spaces, and a word that is too long stays whole', () => {
  expect(wrapLine('one two three', 7)).toEqual(['one two', 'three'])
  expect(wrapLine('a /very/long/path b', 6)).toEqual(['a', '/very/long/path', 'b'])
  expect(wrapLine('', 6)).toEqual([''])
})

test('what follows the first line hangs under it', () => {
  expect(hanging('fix: ', 'aaaa bbbb cccc dddd eeee', 25)).toBe('fix: aaaa bbbb cccc dddd\n     eeee\n')
})

test('paragraphs are wrapped anew and examples stay as they are', () => {
  expect(wrapText('one\ntwo three\n\n  an   example\nend', 9)).toBe('one two\nthree\n\n  an   example\nend')
})
