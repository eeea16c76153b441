import { expect, test } from 'vitest'
import { exitReason } from './start-daemon.ts'

test('the error message of the daemon is the reason, with the next step and without the stack', () => {
  const said =
    '{"level":30,"msg":"starting"}\nsandglass: internal error: Error: boom\n    at async main (file:///x/main.ts:3:1)\n  next: try again\n'
  expect(exitReason(said)).toEqual({ why: 'internal error: Error: boom', next: 'try again' })
})

test('after a crash the reason is the error, not the line that threw it', () => {
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
  expect(exitReason(said.join('\n')).why).toBe('SqliteError: file is not a database')
})

test('the reason is the message of a JSON line, any other line itself, or that there is no message', () => {
  expect(exitReason('{"level":60,"msg":"cannot","err":{"message":"port taken"}}\n    at x (y)').why).toBe('port taken')
  expect(exitReason('{"level":60,"msg":"cannot"}').why).toBe('cannot')
  expect(exitReason('Killed').why).toBe('Killed')
  expect(exitReason('    at x (y)\n\n').why).toBe('it ended without an error message')
})
