import { expect, test } from 'vitest'
import { type Origin, parseRequestHead, parseResponseHead } from './head.ts'

const origin: Origin = {
  scheme: 'https',
  port: 443,
  host: 'example.com',
  isProxy: false,
  normaliseHost: host => host.toLowerCase().replace(/\.$|^\[|\]$/g, ''),
}
const proxy: Origin = { ...origin, scheme: 'http', port: 3128, host: null, isProxy: true }

const request = (text: string, from: Origin = origin) => parseRequestHead(text, from)
const get = (...lines: string[]) => `${['GET /a?b=c HTTP/1.1', 'Host: example.com', ...lines].join('\r\n')}\r\n`

test('a request is read with its headers in order and as they are written', () => {
  const { head, framing, isPersistent } = request(get('X-One:  1 ', 'x-TWO: 2\t', 'X-One: \xe9', 'Empty:'))
  expect(head).toEqual({
    version: '1.1',
    method: 'GET',
    scheme: 'https',
    host: 'example.com',
    port: 443,
    target: '/a?b=c',
    headers: [
      ['Host', 'example.com'],
      ['X-One', '1'],
      ['x-TWO', '2'],
      ['X-One', '\xe9'],
      ['Empty', ''],
    ],
    upgrade: null,
  })
  expect(framing).toEqual({ kind: 'none' })
  expect(isPersistent).toBe(true)
})

test.each([
  ['bare LF after a header', 'GET / HTTP/1.1\r\nHost: example.com\nX: y\r\n'],
  ['bare LF after the request line', 'GET / HTTP/1.1\nHost: example.com\r\n'],
  ['bare CR in a value', get('X: a\rb')],
  ['NUL in a value', get('X: a\0b')],
  ['DEL in a value', get('X: a\x7fb')],
  ['folded line', get('X: a', ' b')],
  ['line that is folded with a tab', get('X: a', '\tb')],
  ['folded line after the request line', 'GET / HTTP/1.1\r\n Host: example.com\r\n'],
  ['space before the colon', get('X : y')],
  ['space before the name', 'GET / HTTP/1.1\r\nHost: example.com\r\n Content-Length: 5\r\n'],
  ['line without a colon', get('X')],
  ['header without a name', get(': y')],
  ['name that is no token', get('X(y): z')],
  ['name with a non-ASCII character', get('X\xe9: z')],
  ['no Host', 'GET / HTTP/1.1\r\nX: y\r\n'],
  ['two Hosts', get('Host: example.com')],
  ['two Hosts in different case', get('hOST: evil.com')],
  ['Host with user information', 'GET / HTTP/1.1\r\nHost: evil.com@example.com\r\n'],
  ['Host with a path', 'GET / HTTP/1.1\r\nHost: example.com/x\r\n'],
  ['Host with an empty port', 'GET / HTTP/1.1\r\nHost: example.com:\r\n'],
  ['Host with a wrong port', 'GET / HTTP/1.1\r\nHost: example.com:99999\r\n'],
  ['Host that is empty', 'GET / HTTP/1.1\r\nHost:\r\n'],
  ['Content-Length and chunks', get('Content-Length: 5', 'Transfer-Encoding: chunked')],
  ['chunks and Content-Length', get('Transfer-Encoding: chunked', 'Content-Length: 5')],
  ['two lengths', get('Content-Length: 5', 'Content-Length: 6')],
  ['two lengths that are equal', get('Content-Length: 5', 'Content-Length: 5')],
  ['list of lengths', get('Content-Length: 5, 5')],
  ['negative length', get('Content-Length: -5')],
  ['length with a sign', get('Content-Length: +5')],
  ['hexadecimal length', get('Content-Length: 0x5')],
  ['length with a fraction', get('Content-Length: 5.0')],
  ['empty length', get('Content-Length:')],
  ['huge length', get('Content-Length: 99999999999999999999')],
  ['unknown coding', get('Transfer-Encoding: gzip')],
  ['two codings', get('Transfer-Encoding: gzip, chunked')],
  ['chunked twice in one header', get('Transfer-Encoding: chunked, chunked')],
  ['chunked twice', get('Transfer-Encoding: chunked', 'Transfer-Encoding: chunked')],
  ['chunked and identity', get('Transfer-Encoding: chunked', 'Transfer-Encoding: identity')],
  ['coding with a vertical tab', get('Transfer-Encoding: \x0bchunked')],
  ['coding with a parameter', get('Transfer-Encoding: chunked;a=b')],
  ['coding in quotes', get('Transfer-Encoding: "chunked"')],
  ['coding with a tab', get('Transfer-Encoding: chunked\t')],
  ['length with a tab', get('Content-Length:\t5')],
  ['empty coding', get('Transfer-Encoding:')],
  ['chunks in HTTP/1.0', 'POST / HTTP/1.0\r\nHost: example.com\r\nTransfer-Encoding: chunked\r\n'],
  ['two spaces in the request line', 'GET  / HTTP/1.1\r\nHost: example.com\r\n'],
  ['tab in the request line', 'GET\t/ HTTP/1.1\r\nHost: example.com\r\n'],
  ['space at the end of the request line', 'GET / HTTP/1.1 \r\nHost: example.com\r\n'],
  ['space in the target', 'GET /a b HTTP/1.1\r\nHost: example.com\r\n'],
  ['fragment in the target', 'GET /a#b HTTP/1.1\r\nHost: example.com\r\n'],
  ['control character in the target', 'GET /\x01 HTTP/1.1\r\nHost: example.com\r\n'],
  ['non-ASCII character in the target', 'GET /\xe9 HTTP/1.1\r\nHost: example.com\r\n'],
  ['target without a slash', 'GET a HTTP/1.1\r\nHost: example.com\r\n'],
  ['asterisk with GET', 'GET * HTTP/1.1\r\nHost: example.com\r\n'],
  ['no target', 'GET HTTP/1.1\r\nHost: example.com\r\n'],
  ['no version', 'GET /\r\nHost: example.com\r\n'],
  ['other version', 'GET / HTTP/1.2\r\nHost: example.com\r\n'],
  ['HTTP/2 preface', 'PRI * HTTP/2.0\r\n'],
  ['version in lower case', 'GET / http/1.1\r\nHost: example.com\r\n'],
  ['method that is no token', 'G@T / HTTP/1.1\r\nHost: example.com\r\n'],
  ['no method', ' / HTTP/1.1\r\nHost: example.com\r\n'],
  ['empty line before the request', '\r\nGET / HTTP/1.1\r\nHost: example.com\r\n'],
  ['URL with another host than Host', 'GET https://evil.com/ HTTP/1.1\r\nHost: example.com\r\n'],
  ['URL with user information', 'GET https://a@example.com/ HTTP/1.1\r\nHost: example.com\r\n'],
  ['URL with another scheme', 'GET http://example.com/ HTTP/1.1\r\nHost: example.com\r\n'],
  ['WebSocket with a body', get('Connection: Upgrade', 'Upgrade: websocket', 'Content-Length: 5')],
  ['WebSocket with POST', 'POST / HTTP/1.1\r\nHost: example.com\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n'],
])('a request is refused as malformed: %s', (_what, text) => {
  expect(() => request(text)).toThrow(expect.objectContaining({ kind: 'malformed', status: 400 }))
})

test('a request for another host or port than the connection is misdirected', () => {
  for (const host of ['other.com', 'example.com:8443', 'sub.example.com', '[::1]']) {
    expect(() => request(`GET / HTTP/1.1\r\nHost: ${host}\r\n`)).toThrow(
      expect.objectContaining({ kind: 'misdirected', status: 421 }),
    )
  }
  for (const host of ['EXAMPLE.com', 'example.com:443', 'example.com.']) {
    expect(request(`GET / HTTP/1.1\r\nHost: ${host}\r\n`).head).toMatchObject({ host: 'example.com', port: 443 })
  }
})

test('the only possible expectation is 100-continue', () => {
  expect(request(get('Content-Length: 5', 'Expect: 100-Continue')).expectsContinue).toBe(true)
  expect(request(get('Expect: 100-continue')).expectsContinue).toBe(false)
  expect(() => request(get('Expect: 200-ok'))).toThrow(expect.objectContaining({ status: 417 }))
  expect(() => request(get('Expect: 100-continue', 'Expect: x'))).toThrow(expect.objectContaining({ status: 417 }))
})

test('more than 200 headers are refused', () => {
  const many = (count: number) => get(...Array.from({ length: count - 1 }, (_, index) => `X-${index}: y`))
  expect(request(many(200)).head.headers).toHaveLength(200)
  expect(() => request(many(201))).toThrow(expect.objectContaining({ status: 431 }))
})

test('headers that concern the connection are not passed on', () => {
  const { head } = request(
    get(
      'Connection: close, X-Dropped, content-length, host',
      'Keep-Alive: timeout=5',
      'X-Dropped: 1',
      'Proxy-Authorization: Basic eA==',
      'Proxy-Connection: keep-alive',
      'TE: gzip',
      'Upgrade: h2c',
      'HTTP2-Settings: AAMA',
      'Content-Length: 5',
      'Kept: 1',
    ),
  )
  expect(head.headers.map(([name]) => name)).toEqual(['Host', 'Content-Length', 'Kept'])
  expect(request(get('TE: deflate, Trailers')).head.headers).toContainEqual(['TE', 'trailers'])
})

test('an upgrade to a WebSocket is recognised, any other is ignored', () => {
  expect(request(get('Connection: keep-alive, Upgrade', 'Upgrade: WebSocket')).head.upgrade).toBe('websocket')
  expect(request(get('Connection: Upgrade, HTTP2-Settings', 'Upgrade: h2c')).head.upgrade).toBe(null)
  expect(request(get('Upgrade: websocket')).head.upgrade).toBe(null)
})

test('HTTP/1.0 needs no Host if the connection has one, and does not persist', () => {
  const { head, isPersistent } = request('GET / HTTP/1.0\r\nConnection: keep-alive\r\n')
  expect(head).toMatchObject({ version: '1.0', host: 'example.com', port: 443 })
  expect(isPersistent).toBe(false)
})

test('the proxy port takes absolute URLs and CONNECT', () => {
  expect(request('GET http://Example.com?q HTTP/1.1\r\nHost: example.com\r\n', proxy).head).toMatchObject({
    host: 'example.com',
    port: 80,
    target: '/?q',
  })
  expect(request('GET http://[::1]:8080/x HTTP/1.1\r\nHost: [::1]:8080\r\n', proxy).head).toMatchObject({
    host: '::1',
    port: 8080,
  })
  expect(request('CONNECT example.com:443 HTTP/1.1\r\nHost: example.com:443\r\n', proxy).head).toMatchObject({
    method: 'CONNECT',
    host: 'example.com',
    port: 443,
    target: '',
  })
})

test.each([
  ['path without a host', 'GET / HTTP/1.1\r\nHost: example.com\r\n'],
  ['other host in Host', 'GET http://example.com/ HTTP/1.1\r\nHost: evil.com\r\n'],
  ['other port in Host', 'GET http://example.com:81/ HTTP/1.1\r\nHost: example.com\r\n'],
  ['https URL', 'GET https://example.com/ HTTP/1.1\r\nHost: example.com\r\n'],
  ['CONNECT without a port', 'CONNECT example.com HTTP/1.1\r\nHost: example.com\r\n'],
  ['CONNECT with a URL', 'CONNECT https://example.com:443/ HTTP/1.1\r\nHost: example.com\r\n'],
  ['CONNECT with another Host', 'CONNECT example.com:443 HTTP/1.1\r\nHost: evil.com:443\r\n'],
  ['CONNECT with a body', 'CONNECT example.com:443 HTTP/1.1\r\nHost: example.com\r\nContent-Length: 5\r\n'],
  ['URL with user information', 'GET http://a:b@example.com/ HTTP/1.1\r\nHost: example.com\r\n'],
])('a request to the proxy port is refused: %s', (_what, text) => {
  expect(() => request(text, proxy)).toThrow(expect.objectContaining({ status: 400 }))
})

test('CONNECT elsewhere is not supported', () => {
  expect(() => request('CONNECT example.com:443 HTTP/1.1\r\nHost: example.com:443\r\n')).toThrow(
    expect.objectContaining({ status: 501 }),
  )
})

const response = (text: string, method = 'GET') => parseResponseHead(text, method)

test('the framing of a response depends on method, status and headers', () => {
  const framing = (status: number, method: string, ...lines: string[]) =>
    response(`${[`HTTP/1.1 ${status} X`, ...lines].join('\r\n')}\r\n`, method).framing
  expect(framing(200, 'GET', 'Content-Length: 5')).toEqual({ kind: 'length', length: 5 })
  expect(framing(200, 'GET', 'Transfer-Encoding: Chunked')).toEqual({ kind: 'chunked' })
  expect(framing(200, 'GET')).toEqual({ kind: 'until-close' })
  for (const [status, method] of [
    [200, 'HEAD'],
    [204, 'GET'],
    [304, 'GET'],
    [101, 'GET'],
    [103, 'GET'],
  ] as const) {
    expect(framing(status, method, 'Content-Length: 5'), `${status} ${method}`).toEqual({ kind: 'none' })
  }
})

test('a response keeps its connection unless something speaks against it', () => {
  const persists = (text: string) => response(text).isPersistent
  expect(persists('HTTP/1.1 200 OK\r\nContent-Length: 0\r\n')).toBe(true)
  expect(persists('HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: Close\r\n')).toBe(false)
  expect(persists('HTTP/1.0 200 OK\r\nContent-Length: 0\r\n')).toBe(false)
  expect(persists('HTTP/1.1 200 OK\r\n')).toBe(false)
  expect(response('HTTP/1.1 200 OK\r\nContent-Length: 0\r\nKeep-Alive: max=3, timeout=7\r\n').idleSeconds).toBe(7)
})

test('Alt-Svc is not passed on', () => {
  expect(response('HTTP/1.1 200\r\nAlt-Svc: h3=":443"\r\nX: y\r\n').head.headers).toEqual([['X', 'y']])
})

test.each([
  ['HTTP/2 200 OK\r\n'],
  ['HTTP/1.1 20 OK\r\n'],
  ['HTTP/1.1 2000 OK\r\n'],
  ['HTTP/1.1 099 OK\r\n'],
  ['HTTP/1.1  200 OK\r\n'],
  ['HTTP/1.1 200 OK\x00\r\n'],
  ['HTTP/1.1 200 OK\r\nX: a\r\n b\r\n'],
  ['HTTP/1.1 200 OK\r\nX : a\r\n'],
  ['HTTP/1.1 200 OK\nX: a\r\n'],
  ['HTTP/1.1 200 OK\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n'],
  ['HTTP/1.1 200 OK\r\nContent-Length: 5\r\nContent-Length: 6\r\n'],
  ['HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked, gzip\r\n'],
  ['HTTP/1.0 200 OK\r\nTransfer-Encoding: chunked\r\n'],
])('a response is refused: %j', text => {
  expect(() => response(text)).toThrow(expect.objectContaining({ kind: 'malformed' }))
})
