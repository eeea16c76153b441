// The same bytes for our server and for node:http: what node refuses, ours refuses; what both accept means the same.
import { createServer, type IncomingMessage, METHODS } from 'node:http'
import { connect } from 'node:net'
import fc from 'fast-check'
import { expect, test } from 'vitest'
import type { HeaderList } from './message.ts'
import { listen, startProxy } from './proxy.fixture.ts'

interface Seen {
  readonly method: string
  readonly target: string
  readonly headers: string[]
  body: string
}

/** Headers that concern the connection: ours never show them. */
const HOP = new Set(['connection', 'keep-alive', 'transfer-encoding', 'upgrade', 'te'])

const sorted = (headers: HeaderList): string[] =>
  headers
    .filter(([name]) => !HOP.has(name.toLowerCase()))
    .map(([name, value]) => `${name.toLowerCase()}: ${value}`)
    .toSorted()

async function bodyOf(stream: AsyncIterable<Buffer> | null): Promise<string> {
  const parts: Buffer[] = []
  for await (const part of stream ?? []) parts.push(part)
  return Buffer.concat(parts).toString('latin1')
}

/** Both servers, and for each the requests that it has accepted whole. */
async function startBoth() {
  const byUs: Seen[] = []
  const byNode: Seen[] = []
  const ours = await startProxy({
    to: 0,
    scheme: 'http',
    handler: async exchange => {
      const { method, target, headers } = exchange.head
      byUs.push({ method, target, headers: sorted(headers), body: await bodyOf(exchange.body) })
      await exchange.respond({ status: 200, headers: [] }, null)
    },
  })
  const server = createServer({ insecureHTTPParser: false }, (request: IncomingMessage, response) => {
    const { method = '', url = '', rawHeaders } = request
    const headers = rawHeaders.flatMap((name, at) => (at % 2 === 0 ? [[name, rawHeaders[at + 1] ?? ''] as const] : []))
    // Requests of one connection begin in order, and may be complete in another.
    const seen: Seen = { method, target: url, headers: sorted(headers), body: 'incomplete' }
    byNode.push(seen)
    bodyOf(request).then(
      body => {
        seen.body = body
        response.end()
      },
      () => undefined, // a body that is refused
    )
  })
  server.on('upgrade', (_request, socket) => socket.destroy())
  // Both answer a client that has ended its side.
  Object.assign(server, { httpAllowHalfOpen: true })
  return { ours: ours.port, node: await listen(server), byUs, byNode }
}

/** Sends all bytes, and waits until the server has closed. */
function deliver(port: number, text: string): Promise<void> {
  return new Promise(resolve => {
    const socket = connect({ port, host: '127.0.0.1', allowHalfOpen: true })
    socket.on('error', () => undefined)
    socket.once('close', () => resolve())
    socket.once('end', () => socket.destroy())
    socket.resume()
    socket.end(Buffer.from(text, 'latin1'))
  })
}

const oneOf = (...values: string[]) => fc.constantFrom(...values)
/** Mostly the first, so that there is something to compare. */
const mostly = (usual: string, ...others: string[]) =>
  fc.oneof({ weight: 12, arbitrary: fc.constant(usual) }, { weight: 1, arbitrary: oneOf(...others) })

const eol = mostly('\r\n', '\n', '\r', '\r\r\n', '\n\r')
const requestLine = fc
  .tuple(
    mostly('POST', 'GET', 'HEAD', 'OPTIONS', 'P@ST', 'post', ' POST', ''),
    mostly(' ', '  ', '\t', ''),
    mostly('/a?b', '*', '/a b', '/\x01', '/\xe9', 'a', '/#f', '//x', '/%00', ''),
    mostly(' ', '  ', '\t', ''),
    mostly('HTTP/1.1', 'HTTP/1.0', 'HTTP/1.2', 'HTTP/2.0', 'http/1.1', 'HTTP/1.1 ', 'HTTP/01.1', ''),
  )
  .map(parts => parts.join(''))
const name = mostly('X-A', 'x-b', 'X A', 'X-A ', ' X-A', '\tX', 'X\0', 'X\xe9', 'X:', '', '(X)', 'X,Y')
const value = mostly('v', '', ' v ', '\tv', 'a\0b', 'a\x7f', 'a\x0bb', '\xe9', 'a\rb', 'a\nb', '"q"', 'a'.repeat(300))
const plainHeader = fc.tuple(name, mostly(': ', ':', ' : ', '', ':\t'), value).map(parts => parts.join(''))
const framingHeader = oneOf(
  'Content-Length: 5',
  'content-length: 5',
  'Content-Length: 05',
  'Content-Length: 5, 5',
  'Content-Length: +5',
  'Content-Length: 0x5',
  'Content-Length: 5 5',
  'Content-Length:',
  'Content-Length : 5',
  'Content-Length: 0',
  'Transfer-Encoding: chunked',
  'Transfer-Encoding: Chunked',
  'Transfer-Encoding: chunked, chunked',
  'Transfer-Encoding: identity',
  'Transfer-Encoding: gzip, chunked',
  'Transfer-Encoding: xchunked',
  'Transfer-Encoding: \x0bchunked',
  'Transfer-Encoding:\tchunked\t',
  'Transfer-Encoding : chunked',
  'Transfer_Encoding: chunked',
  ' Transfer-Encoding: chunked',
  'Connection: close',
  'Connection: keep-alive, X-A',
  'Expect: 100-continue',
)
const body = oneOf(
  '',
  'hello',
  'hello!',
  '5\r\nhello\r\n0\r\n\r\n',
  '5;a=b\r\nhello\r\n0\r\n\r\n',
  '5;a="b"\r\nhello\r\n0\r\n\r\n',
  '5;\r\nhello\r\n0\r\n\r\n',
  '5 \r\nhello\r\n0\r\n\r\n',
  '5\nhello\r\n0\r\n\r\n',
  '5\r\nhello\n0\r\n\r\n',
  '5\r\nhello\r\n0\r\nT: 1\r\n\r\n',
  '5\r\nhello\r\n0\r\nT : 1\r\n\r\n',
  '5\r\nhello\r\n0\r\n\n',
  '5\r\nhello\r\n00\r\n\r\n',
  '0005\r\nhello\r\n0\r\n\r\n',
  '0x5\r\nhello\r\n0\r\n\r\n',
  '-5\r\nhello\r\n0\r\n\r\n',
  '5\r\nhelloX\r\n0\r\n\r\n',
  '0\r\n\r\n',
  '0\r\n\r\nGET /smuggled HTTP/1.1\r\nHost: h\r\n\r\n',
)
const request = fc
  .tuple(
    requestLine,
    eol,
    mostly('Host: h', 'Host : h', 'hOsT:h', 'X: y'),
    fc.array(fc.tuple(fc.oneof(plainHeader, framingHeader), eol), { maxLength: 3 }),
    mostly('\r\n', '\n', '\r'),
    body,
  )
  .map(
    ([line, end, host, headers, last, text]) =>
      `${line}${end}${host}${end}${headers.map(parts => parts.join('')).join('')}${last}${text}`,
  )

test('node:http refuses nothing that we accept, and understands the rest in the same way', async () => {
  const { ours, node, byUs, byNode } = await startBoth()
  let both = 0
  await fc.assert(
    fc.asyncProperty(fc.array(request, { minLength: 1, maxLength: 3 }), async requests => {
      byUs.length = 0
      byNode.length = 0
      const text = requests.join('').replaceAll('Host: h\r\n', `Host: 127.0.0.1:${ours}\r\n`)
      await Promise.all([deliver(ours, text), deliver(node, text)])
      // Any token is a method here; node has a list, and stops at what is not on it.
      const known = byUs.slice(0, byUs.findIndex(({ method }) => !METHODS.includes(method)) >>> 0)
      both += known.length
      // Ours may stop earlier, never later, and never at another request.
      expect(known.map(droppedByList)).toEqual(byNode.slice(0, known.length).map(droppedByList))
    }),
    { numRuns: 2000 },
  )
  expect(both).toBeGreaterThan(200)
}, 120_000)

/** `Connection: keep-alive, X-A` makes ours drop X-A, which node shows. */
const droppedByList = (seen: Seen): Seen => ({ ...seen, headers: seen.headers.filter(header => !header.startsWith('x-a:')) })
