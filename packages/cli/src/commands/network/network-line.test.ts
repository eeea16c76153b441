import { PassThrough } from 'node:stream'
import { stripVTControlCharacters } from 'node:util'
import type { NetworkEntry } from '@sandglass/sdk'
import { expect, test } from 'vitest'
import { networkLine } from './network-line.ts'

const ENTRY: NetworkEntry = {
  id: 1,
  at: '2026-01-02T03:04:05.678Z',
  type: 'request',
  decision: 'allowed',
  method: 'GET',
  url: 'https://example.com/a',
  host: 'example.com',
  port: 443,
  status: 200,
  rule: 'npm: example.com',
  reason: null,
  bytesSent: 100,
  bytesReceived: 2048,
  durationMs: 34.6,
  masked: 0,
  tags: [],
}
const EMPTY = { method: null, url: null, host: null, port: null, status: null, rule: null, reason: null }
const NO_RESULT = { bytesSent: null, bytesReceived: null, durationMs: null }
/** Without the colours of a terminal. */
const line = (changes: Partial<NetworkEntry>) => stripVTControlCharacters(networkLine({ ...ENTRY, ...changes }, process.stdout))

test('an allowed request has its result and its rule', () => {
  expect(line({})).toBe('2026-01-02T03:04:05.678Z  ALLOWED   GET  https://example.com/a  200  2.0 KiB  35 ms  npm: example.com')
  expect(line({ masked: 2, tags: ['graphql-op: query'] })).toMatch(/ {2}\[masked: 2\] {2}\[graphql-op: query\]$/)
})

test('a refused request has its reason', () => {
  expect(line({ ...NO_RESULT, decision: 'blocked', status: 403, rule: null, reason: 'no rule allows example.com' })).toBe(
    '2026-01-02T03:04:05.678Z  BLOCKED   GET  https://example.com/a  403  no rule allows example.com',
  )
})

test('entries without a request say what they are', () => {
  expect(line({ ...EMPTY, ...NO_RESULT, type: 'start', decision: null })).toBe('2026-01-02T03:04:05.678Z  START')
  expect(line({ ...EMPTY, ...NO_RESULT, type: 'dns', decision: 'blocked', host: 'x.example' })).toBe(
    '2026-01-02T03:04:05.678Z  BLOCKED   DNS  x.example',
  )
  expect(line({ ...EMPTY, ...NO_RESULT, type: 'connection', host: 'db.example', port: 5432 })).toContain('TCP  db.example:5432')
  expect(line({ ...EMPTY, ...NO_RESULT, type: 'dns', decision: null, host: 'x.example', reason: 'refused' })).toBe(
    '2026-01-02T03:04:05.678Z  DNS       x.example  refused',
  )
  expect(line({ ...NO_RESULT, type: 'stripped', decision: null, status: null, reason: 'authorization' })).toBe(
    '2026-01-02T03:04:05.678Z  STRIPPED  GET  https://example.com/a  header authorization removed: it held another credential',
  )
})

test('what a sandbox chose cannot act on the terminal or break the line', () => {
  const hostile = 'https://example.com/\u001b[2J\n\u202e'
  const shown = line({ method: 'G\u001b[1mT', url: hostile, rule: '\r', tags: ['\u0007'] })
  // biome-ignore lint/suspicious/noControlCharactersInRegex: control characters are what it looks for
  expect(shown).not.toMatch(/[\u0000-\u001f\u202e]/)
  expect(shown).toContain('\\x1b[2J\\n\\u202e')
})

test('a terminal shows the local time, and a long entry in two lines', () => {
  const stream = Object.assign(new PassThrough(), { isTTY: true, columns: 80 })
  const at = new Date(2026, 0, 2, 3, 4, 5)
  const shown = (changes: Partial<NetworkEntry>, now = at) =>
    stripVTControlCharacters(networkLine({ ...ENTRY, at: at.toISOString(), ...changes }, stream, now))
  expect(shown({ rule: null })).toBe('03:04:05  ALLOWED   GET  https://example.com/a  200  2.0 KiB  35 ms')
  expect(shown({ tags: ['observed'] })).toBe(
    '03:04:05  ALLOWED   GET  https://example.com/a  200  2.0 KiB  35 ms\n          npm: example.com  [observed]',
  )
  expect(shown({ ...NO_RESULT, rule: null }, new Date(2026, 0, 3))).toBe(
    '2026-01-02 03:04:05  ALLOWED   GET  https://example.com/a  200',
  )
})
