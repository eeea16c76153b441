import { once } from 'node:events'
import { createServer as createHttpServer, type IncomingMessage } from 'node:http'
import { createServer as createHttpsServer } from 'node:https'
import { connect, type Socket } from 'node:net'
import { text as readText } from 'node:stream/consumers'
import { expect, onTestFinished, test } from 'vitest'
import { createTrust } from '../../tls/upstream-tls.ts'
import type { RequestHead } from '../message.ts'
import { listen, routeTo, serverCertificate, startRawServer, testAuthority } from '../proxy.fixture.ts'
import { createUpstreams, type Route } from '../upstream.ts'
import { dial, parseProxy, type UpstreamProxy } from './dial.ts'

const signal = new AbortController().signal

const headFor = (scheme: 'http' | 'https', port: number): RequestHead => ({
  version: '1.1',
  method: 'GET',
  scheme,
  host: 'localhost',
  port,
  target: '/path?q',
  headers: [['Accept', '*/*']],
  upgrade: null,
})

async function get(route: Route): Promise<{ status: number; body: string }> {
  const upstreams = createUpstreams(() => createTrust([testAuthority.certificate]))
  onTestFinished(() => upstreams.close())
  const upstream = await upstreams.acquire(route, signal)
  const { head, body } = await upstream.send({ head: headFor(route.scheme, route.port), body: null, signal })
  return { status: head.status, body: body === null ? '' : await readText(body) }
}

/** A proxy of node:http that does what it is asked, and keeps the requests. */
async function startForwardProxy(): Promise<{ proxy: UpstreamProxy; requests: IncomingMessage[] }> {
  const requests: IncomingMessage[] = []
  const server = createHttpServer((request, response) => {
    requests.push(request)
    response.end(`plain ${request.url}`)
  })
  server.on('connect', (request, socket) => {
    requests.push(request)
    const target = connect(Number(request.url?.split(':')[1]), '127.0.0.1')
    for (const side of [socket, target]) side.on('error', () => undefined)
    target.once('connect', () => socket.write('HTTP/1.1 200 Connection established\r\nX-Proxy: y\r\n\r\n'))
    target.pipe(socket).pipe(target)
  })
  return { proxy: { host: '127.0.0.1', port: await listen(server), authorization: 'Basic dXNlcjpwYXNz' }, requests }
}

test('https goes through a proxy by CONNECT, and the server is still verified', async () => {
  const { secureContext } = await serverCertificate()
  const server = createHttpsServer({ SNICallback: (_name, done) => done(null, secureContext) }, (_request, response) =>
    response.end('secret'),
  )
  const port = await listen(server)
  const { proxy, requests } = await startForwardProxy()
  expect(await get(routeTo(port, false, { proxy, addresses: [] }))).toEqual({ status: 200, body: 'secret' })
  expect(requests.map(({ method, url, headers }) => [method, url, headers['proxy-authorization']])).toEqual([
    ['CONNECT', `localhost:${port}`, 'Basic dXNlcjpwYXNz'],
  ])
  await expect(get(routeTo(port, false, { proxy, addresses: [], host: 'other.example' }))).rejects.toMatchObject({
    kind: 'upstream_tls',
  })
})

test('http goes through a proxy with its whole URL', async () => {
  const { proxy, requests } = await startForwardProxy()
  const { body } = await get(routeTo(8080, false, { scheme: 'http', proxy, addresses: [] }))
  expect(body).toBe('plain http://localhost:8080/path?q')
  expect(requests[0]?.headers).toMatchObject({ host: 'localhost:8080', 'proxy-authorization': 'Basic dXNlcjpwYXNz' })
})

test.each([
  ['refuses', 'HTTP/1.1 407 Proxy Authentication Required\r\nContent-Length: 0\r\n\r\n', /status 407/],
  ['is no proxy', 'hello\r\n\r\n', /proxy failed/],
])('a proxy that %s is an error that says so', async (_what, reply, message) => {
  const { port } = await startRawServer(socket => socket.write(reply))
  const proxy = { host: '127.0.0.1', port, authorization: null }
  await expect(dial({ host: 'example.com', port: 443, addresses: [], dialPort: 443, proxy }, null)).rejects.toMatchObject({
    kind: 'unreachable',
    message: expect.stringMatching(message),
  })
})

test('bytes that follow the reply to CONNECT belong to the connection', async () => {
  const { port } = await startRawServer(socket => socket.write('HTTP/1.1 200 OK\r\n\r\nSSH-2.0'))
  const proxy = { host: '127.0.0.1', port, authorization: null }
  const socket: Socket = await dial({ host: 'example.com', port: 22, addresses: [], dialPort: 22, proxy }, null)
  onTestFinished(() => void socket.destroy())
  const [first] = await once(socket.resume(), 'data')
  expect(String(first)).toBe('SSH-2.0')
})

test('the URL of a proxy may have credentials and an address', () => {
  expect(parseProxy('http://us%40er:p%3Aw@proxy.example:3128')).toEqual({
    host: 'proxy.example',
    port: 3128,
    authorization: `Basic ${Buffer.from('us@er:p:w').toString('base64')}`,
  })
  expect(parseProxy('http://[::1]:8080')).toEqual({ host: '::1', port: 8080, authorization: null })
  expect(parseProxy('http://proxy')).toMatchObject({ port: 80 })
  expect(() => parseProxy('https://proxy')).toThrow()
})
