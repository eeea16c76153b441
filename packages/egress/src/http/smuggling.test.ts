// What a server gets of bytes that one program could read as one request, and another as two.
import { once } from 'node:events'
import { connect as connectSecurely } from 'node:tls'
import { expect, test } from 'vitest'
import { createLeafCache } from '../tls/leaf.ts'
import { terminateTls } from '../tls/terminate.ts'
import { serveHttp1 } from './h1-server.ts'
import { dialTest, exchangeRaw, startProxy, startRawServer, testAuthority } from './proxy.fixture.ts'
import { jsonReply, replyWith } from './reply.ts'

const OK = 'HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n'
const SMUGGLED = 'GET /smuggled HTTP/1.1\r\nHost: localhost\r\n\r\n'

/** A proxy and the bytes that its server receives. */
async function start() {
  let received = ''
  const server = await startRawServer((socket, text) => {
    received = text
    // One reply for each request that has arrived whole.
    if (text.endsWith('\r\n\r\n')) socket.write(OK)
  })
  const proxy = await startProxy({ to: server.port, scheme: 'http' })
  return { proxy, to: server.port, received: () => received, host: `Host: 127.0.0.1:${proxy.port}` }
}

test.each([
  ['CL.TE', ['Content-Length: 6', 'Transfer-Encoding: chunked'], `0\r\n\r\n${SMUGGLED}`],
  ['TE.CL', ['Transfer-Encoding: chunked', 'Content-Length: 4'], `5c\r\n${SMUGGLED}\r\n0\r\n\r\n`],
  ['TE.TE with a second coding', ['Transfer-Encoding: chunked', 'Transfer-Encoding: x'], `0\r\n\r\n${SMUGGLED}`],
  ['TE.TE with a list', ['Transfer-Encoding: chunked, identity'], `0\r\n\r\n${SMUGGLED}`],
  ['TE with a space before the colon', ['Transfer-Encoding : chunked'], `0\r\n\r\n${SMUGGLED}`],
  ['TE in a folded line', ['X: y', ' Transfer-Encoding: chunked'], `0\r\n\r\n${SMUGGLED}`],
  ['TE folded after its name', ['Transfer-Encoding:', ' chunked'], `0\r\n\r\n${SMUGGLED}`],
  ['TE after a bare CR', ['X: y\rTransfer-Encoding: chunked'], `0\r\n\r\n${SMUGGLED}`],
  ['TE after a bare LF', ['X: y\nTransfer-Encoding: chunked'], `0\r\n\r\n${SMUGGLED}`],
  ['TE with a vertical tab', ['Transfer-Encoding: \x0bchunked'], `0\r\n\r\n${SMUGGLED}`],
  ['TE with a NUL', ['Transfer-Encoding: chunked\0'], `0\r\n\r\n${SMUGGLED}`],
  ['two lengths', ['Content-Length: 0', 'Content-Length: 44'], SMUGGLED],
  ['length as a list', ['Content-Length: 0, 44'], SMUGGLED],
  ['signed length', ['Content-Length: +0'], SMUGGLED],
  ['two hosts', ['Host: localhost'], SMUGGLED],
])('%s: the server gets nothing', async (_what, headers, body) => {
  const { proxy, received, host } = await start()
  const reply = await exchangeRaw(proxy.port, `${['POST / HTTP/1.1', host, ...headers].join('\r\n')}\r\n\r\n${body}`)
  expect(reply).toMatch(/^HTTP\/1.1 400 Bad Request/)
  expect(received()).toBe('')
})

test.each([
  ['chunk with a bare LF', `2\nab\r\n0\r\n\r\n${SMUGGLED}`],
  ['extension with a bare LF', `2;a\nab\r\n0\r\n\r\n${SMUGGLED}`],
  ['size with a prefix', `0x2\r\nab\r\n0\r\n\r\n${SMUGGLED}`],
  ['chunk that is longer than its size', `2\r\nabc\r\n0\r\n\r\n${SMUGGLED}`],
  ['size that overflows', `fffffffffffffffe\r\nab\r\n0\r\n\r\n${SMUGGLED}`],
])('%s: the server gets no second request', async (_what, body) => {
  const { proxy, received, host } = await start()
  await exchangeRaw(proxy.port, `POST / HTTP/1.1\r\n${host}\r\nTransfer-Encoding: chunked\r\n\r\n${body}`)
  expect(received()).not.toContain('smuggled')
})

test('a chunked request is framed anew: extensions are dropped, sizes written as we understood them', async () => {
  const { proxy, received, host, to } = await start()
  const body = '0003;ext=1;x\r\nabc\r\n2\r\nde\r\n000\r\nX-T: 1\r\nContent-Length: 5\r\n\r\n'
  await exchangeRaw(proxy.port, `POST / HTTP/1.1\r\n${host}\r\ntransfer-encoding: CHUNKED\r\nConnection: close\r\n\r\n${body}`)
  const [head, chunks] = received().split(/\r\n\r\n(.*)/s)
  expect(head).toBe(`POST / HTTP/1.1\r\nHost: localhost:${to}\r\nTransfer-Encoding: chunked`)
  expect(chunks).toBe('3\r\nabc\r\n2\r\nde\r\n0\r\nX-T: 1\r\n\r\n')
})

test('a second request for another host on the same connection is refused', async () => {
  const { port, exchanges } = await startProxy({
    to: 0,
    scheme: 'http',
    host: '127.0.0.1',
    handler: exchange => replyWith(exchange, jsonReply(200, 'ok')),
  })
  const reply = await exchangeRaw(
    port,
    `GET / HTTP/1.1\r\nHost: 127.0.0.1:${port}\r\n\r\nGET / HTTP/1.1\r\nHost: evil.com:${port}\r\n\r\n`,
  )
  expect(reply).toMatch(/^HTTP\/1.1 200 .*HTTP\/1.1 421 /s)
  expect(exchanges).toHaveLength(1)
})

test('a HEAD, 204 or 304 with a body of the server does not become the next reply', async () => {
  for (const [method, line] of [
    ['HEAD', '200 OK'],
    ['GET', '204 No Content'],
    ['GET', '304 Not Modified'],
  ]) {
    const { port: to } = await startRawServer((socket, text) => {
      const isFirst = !text.includes('/2')
      socket.write(
        isFirst ? `HTTP/1.1 ${line}\r\nContent-Length: 44\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nEVIL` : `${OK}`,
      )
    })
    const { port } = await startProxy({ to, scheme: 'http' })
    const request = (path: string, name: string) => `${name} ${path} HTTP/1.1\r\nHost: 127.0.0.1:${port}\r\n\r\n`
    const reply = await exchangeRaw(
      port,
      request('/1', method ?? '') + request('/2', 'GET'),
      text => text.split('HTTP/1.1').length > 2,
    )
    expect(reply, line).not.toContain('EVIL')
  }
})

test('TLS that follows CONNECT at once reaches the handshake', async () => {
  const leaves = createLeafCache()
  const proxy = await startProxy({
    to: 0,
    scheme: 'http',
    isProxy: true,
    handler: async exchange => {
      const { host, port } = exchange.head
      const raw = exchange.upgrade({ status: 200, headers: [] })
      const secure = await terminateTls(raw, await leaves.contextFor(testAuthority, host), { alpn: ['http/1.1'] })
      const origin = { scheme: 'https', host, port, isProxy: false, normaliseHost: (name: string) => name } as const
      await serveHttp1(secure, { origin, onRefused: () => undefined }, inner => replyWith(inner, jsonReply(200, inner.head)))
    },
  })
  const raw = dialTest(proxy.port)
  raw.write('CONNECT example.com:443 HTTP/1.1\r\nHost: example.com:443\r\n\r\n')
  // The client does not wait for the 200: the server's reply to CONNECT is taken off before TLS begins.
  const [reply] = (await once(raw, 'data')) as [Buffer]
  expect(reply.toString()).toBe('HTTP/1.1 200 OK\r\n\r\n')
  const secure = connectSecurely({ socket: raw, servername: 'example.com', ca: testAuthority.certificate })
  secure.write('GET /inside HTTP/1.1\r\nHost: example.com\r\n\r\n')
  const [answer] = (await once(secure, 'data')) as [Buffer]
  expect(answer.toString()).toMatch(/^HTTP\/1.1 200 OK.*"target":"\/inside"/s)
})

test('bytes that come with CONNECT are kept for what follows', async () => {
  const proxy = await startProxy({
    to: 0,
    scheme: 'http',
    isProxy: true,
    handler: async exchange => {
      const raw = exchange.upgrade({ status: 200, headers: [] })
      raw.pipe(raw)
      await once(raw, 'close')
    },
  })
  const text = 'CONNECT example.com:22 HTTP/1.1\r\nHost: example.com:22\r\n\r\nSSH-2.0-early'
  expect(await exchangeRaw(proxy.port, text, reply => reply.endsWith('early'))).toBe('HTTP/1.1 200 OK\r\n\r\nSSH-2.0-early')
})
