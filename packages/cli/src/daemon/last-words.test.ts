import { expect, test } from 'vitest'
import { reasonIn } from './last-words.ts'

test("the daemon's own words count, with the next step and without the stack", () => {
  const said =
    '{"level":30,"msg":"starting"}\nsandglass: internal error: Error: boom\n    at async main (file:///x/main.ts:3:1)\n  next: try again\n'
  expect(reasonIn(said)).toEqual({ why: 'internal error: Error: boom', next: 'try again' })
})

test('of a crash the error is shown, not the line that threw it', () => {
  const said = [
    'file:///x/main.ts:12',
    '    throw error',
    '    ^',
    '',
    'SqliteError: file is not a database',
    '    at open (file:///x/open.ts:3:1) {',
    "  code: 'SQLITE_NOTADB'",
    '}',
    '',
    'Node.js v24.1.0',
  ]
  expect(reasonIn(said.join('\n')).why).toBe('SqliteError: file is not a database')
})

test('a line of JSON gives its message, anything else itself, and nothing is said so', () => {
  expect(reasonIn('{"level":60,"msg":"cannot","err":{"message":"port taken"}}\n    at x (y)').why).toBe('port taken')
  expect(reasonIn('{"level":60,"msg":"cannot"}').why).toBe('cannot')
  expect(reasonIn('Killed').why).toBe('Killed')
  expect(reasonIn('    at x (y)\n\n').why).toBe('it ended without a word')
})
