import { Readable } from 'node:stream'
import { expect, test } from 'vitest'
import type { RequestHead } from '../message.ts'
import { requestFraming, responseFraming, writeRequestHead, writeResponseHead, writeTrailers } from './write-head.ts'

const head: RequestHead = {
  version: '1.1',
  method: 'POST',
  scheme: 'https',
  host: 'example.com',
  port: 443,
  target: '/a?b',
  headers: [
    ['Accept', '*/*'],
    ['HOST', 'EXAMPLE.com.'],
    ['content-Length', '005'],
    ['X', 'y'],
  ],
  upgrade: null,
}
const body = Buffer.from('hello')

test('a request keeps the order and case of its headers; Host and length are the ones that were checked', () => {
  expect(writeRequestHead(head, requestFraming(head, body), null)).toBe(
    'POST /a?b HTTP/1.1\r\nAccept: */*\r\nHOST: example.com\r\ncontent-Length: 5\r\nX: y\r\n\r\n',
  )
})

test('a request that came without Host, as in HTTP/2, gets one first', () => {
  const bare: RequestHead = { ...head, headers: [['accept', '*/*']], host: '::1', port: 8443, scheme: 'https' }
  expect(writeRequestHead(bare, { kind: 'chunked' }, null)).toBe(
    'POST /a?b HTTP/1.1\r\nHost: [::1]:8443\r\naccept: */*\r\nTransfer-Encoding: chunked\r\n\r\n',
  )
})

test('a WebSocket handshake asks for the upgrade again', () => {
  const text = writeRequestHead({ ...head, method: 'GET', headers: [], upgrade: 'websocket' }, { kind: 'none' }, null)
  expect(text).toContain('Connection: Upgrade\r\nUpgrade: websocket\r\n')
})

test('a proxy gets the absolute URL and its own credentials', () => {
  const plain: RequestHead = { ...head, scheme: 'http', port: 8080, headers: [] }
  expect(writeRequestHead(plain, { kind: 'none' }, { authorization: 'Basic eA==' })).toBe(
    'POST http://example.com:8080/a?b HTTP/1.1\r\nHost: example.com:8080\r\nProxy-Authorization: Basic eA==\r\n\r\n',
  )
})

test.each([
  ['line feed', 'a\nX: y'],
  ['carriage return', 'a\rX: y'],
  ['both', 'a\r\nX: y'],
  ['NUL', 'a\0'],
  ['character whose low byte is CR', 'a\u010d\u010aX: y'],
])('a value that would end its header is refused: %s', (_what, value) => {
  expect(() => writeRequestHead({ ...head, headers: [['A', value]] }, { kind: 'none' }, null)).toThrow('cannot be sent')
  expect(() => writeResponseHead({ status: 200, headers: [['A', value]] }, { kind: 'none' }, line)).toThrow('cannot be sent')
  expect(() => writeTrailers([['A', value]])).toThrow('cannot be sent')
  expect(() => writeRequestHead({ ...head, headers: [[value, 'a']] }, { kind: 'none' }, null)).toThrow('cannot be sent')
  expect(() => writeRequestHead({ ...head, target: `/${value}` }, { kind: 'none' }, null)).toThrow('cannot be sent')
  expect(() => writeRequestHead({ ...head, method: value }, { kind: 'none' }, null)).toThrow('cannot be sent')
})

test('nobody but the connection writes headers of the connection', () => {
  for (const name of ['Connection', 'transfer-encoding', 'Upgrade', 'Keep-Alive']) {
    expect(() => writeRequestHead({ ...head, headers: [[name, 'x']] }, { kind: 'none' }, null)).toThrow(name)
  }
})

const line = { version: '1.1', closes: false, upgrade: null } as const

test('the framing of a response follows its body, method and version', () => {
  const ok = { status: 200, headers: [] }
  const withLength = { status: 200, headers: [['Content-Length', '5']] } as const
  const stream = Readable.from([])
  expect(responseFraming(ok, null, 'GET', '1.1')).toEqual({ kind: 'length', length: 0 })
  expect(responseFraming(ok, body, 'GET', '1.1')).toEqual({ kind: 'length', length: 5 })
  expect(responseFraming(withLength, stream, 'GET', '1.1')).toEqual({ kind: 'length', length: 5 })
  expect(responseFraming(ok, stream, 'GET', '1.1')).toEqual({ kind: 'chunked' })
  expect(responseFraming(ok, stream, 'GET', '1.0')).toEqual({ kind: 'until-close' })
  expect(responseFraming(withLength, null, 'HEAD', '1.1')).toEqual({ kind: 'none' })
  expect(writeResponseHead(withLength, { kind: 'none' }, line)).toBe('HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n')
})
