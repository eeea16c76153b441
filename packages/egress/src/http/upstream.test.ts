import { once } from 'node:events'
import { createServer as createHttpServer } from 'node:http'
import type { Server, Socket } from 'node:net'
import { Readable } from 'node:stream'
import { text as readText } from 'node:stream/consumers'
import { expect, onTestFinished, test } from 'vitest'
import { createTrust } from '../tls/upstream-tls.ts'
import type { RequestHead } from './message.ts'
import { listen, routeTo, startRawServer, testAuthority } from './proxy.fixture.ts'
import { createUpstreams, type Route, type Upstreams } from './upstream.ts'

const trust = createTrust([testAuthority.certificate])
const signal = new AbortController().signal

function newUpstreams(): Upstreams {
  const upstreams = createUpstreams(() => trust)
  onTestFinished(() => upstreams.close())
  return upstreams
}

const plain = (port: number, changes: Partial<Route> = {}) => routeTo(port, false, { scheme: 'http', ...changes })

const headFor = (port: number, changes: Partial<RequestHead> = {}): RequestHead => ({
  version: '1.1',
  method: 'GET',
  scheme: 'http',
  host: 'localhost',
  port,
  target: '/',
  headers: [],
  upgrade: null,
  ...changes,
})

async function get(
  upstreams: Upstreams,
  route: Route,
  changes: Partial<RequestHead> = {},
): Promise<{ status: number; body: string }> {
  const upstream = await upstreams.acquire(route, signal)
  const reply = await upstream.send({ head: headFor(route.port, changes), body: null, signal })
  return { status: reply.head.status, body: reply.body === null ? '' : await readText(reply.body) }
}

/** A node server that counts its connections. */
async function startCounting(): Promise<{ server: Server; port: number; sockets: Set<Socket> }> {
  const server = createHttpServer((request, response) => {
    request.resume().on('end', () => response.end(request.url))
  })
  const sockets = new Set<Socket>()
  server.on('connection', socket => sockets.add(socket))
  return { server, port: await listen(server), sockets }
}

test('requests one after the other share a connection, and two at once do not', async () => {
  const { port, sockets } = await startCounting()
  const upstreams = newUpstreams()
  for (const target of ['/1', '/2', '/3'])
    expect(await get(upstreams, plain(port), { target })).toEqual({ status: 200, body: target })
  expect(sockets.size).toBe(1)
  await Promise.all([get(upstreams, plain(port)), get(upstreams, plain(port))])
  expect(sockets.size).toBe(2)
})

test.each([
  ['session', { sessionId: 'other' }],
  ['secrets', { secretSet: 'other' }],
  ['host', { host: 'other' }],
  ['address', { addresses: [{ address: '127.0.0.2', family: 4 }] }],
] as const)('connections are not shared between requests that differ in %s', async (_what, changes) => {
  const server = createHttpServer((_request, response) => response.end())
  server.listen(0, '0.0.0.0')
  await once(server, 'listening')
  onTestFinished(() => void server.close())
  const { port } = server.address() as import('node:net').AddressInfo
  let connections = 0
  server.on('connection', () => {
    connections += 1
  })
  const upstreams = newUpstreams()
  await get(upstreams, plain(port))
  await get(upstreams, plain(port, changes))
  expect(connections).toBe(2)
})

test('a connection is used again only while its address is among the checked ones', async () => {
  const { port, sockets } = await startCounting()
  const upstreams = newUpstreams()
  const other = { address: '127.0.0.9', family: 4 } as const
  await get(upstreams, plain(port))
  await get(upstreams, plain(port, { addresses: [other, { address: '127.0.0.1', family: 4 }] }))
  expect(sockets.size).toBe(1)
  await expect(get(upstreams, plain(port, { addresses: [other] }))).rejects.toMatchObject({ kind: 'unreachable' })
})

test('an acquired connection that is released serves the next request', async () => {
  const { port, sockets } = await startCounting()
  const upstreams = newUpstreams()
  const unused = await upstreams.acquire(plain(port), signal)
  unused.release()
  await get(upstreams, plain(port))
  expect(sockets.size).toBe(1)
})

/** A server that answers the first request of each connection, and closes it when the second one arrives. */
const startForgetful = () =>
  startRawServer((socket, received) => {
    const requests = received.split('\r\n\r\n').length - 1
    if (requests === 1) socket.write('HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok')
    else socket.destroy()
  })

test('a kept connection that is dead is replaced, for a request that can be sent again', async () => {
  const { port, connections } = await startForgetful()
  const upstreams = newUpstreams()
  await get(upstreams, plain(port))
  expect(await get(upstreams, plain(port))).toEqual({ status: 200, body: 'ok' })
  expect(connections).toHaveLength(2)
  const upstream = await upstreams.acquire(plain(port), signal)
  const reply = await upstream.send({ head: headFor(port, { method: 'PUT' }), body: Buffer.from('again'), signal })
  expect(reply.head.status).toBe(200)
})

test('a request that may have been acted on is not sent twice', async () => {
  const { port, connections } = await startForgetful()
  const upstreams = newUpstreams()
  await get(upstreams, plain(port))
  await expect(get(upstreams, plain(port), { method: 'POST' })).rejects.toMatchObject({ kind: 'upstream_closed', status: 502 })
  await get(upstreams, plain(port))
  const upstream = await upstreams.acquire(plain(port), signal)
  const body = Readable.from([Buffer.from('once')])
  await expect(upstream.send({ head: headFor(port, { method: 'PUT' }), body, signal })).rejects.toMatchObject({
    kind: 'upstream_closed',
  })
  expect(connections).toHaveLength(2)
})

test('a fresh connection that is closed without a reply is not tried again', async () => {
  const { port, connections } = await startRawServer(socket => socket.destroy())
  await expect(get(newUpstreams(), plain(port))).rejects.toMatchObject({ kind: 'upstream_closed' })
  expect(connections).toHaveLength(1)
})

test('bytes that a server sends without being asked are never taken for a reply', async () => {
  const { port, connections } = await startRawServer((socket, received) => {
    const poison = received.includes('/poison') ? 'HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\npoison' : ''
    socket.write(`HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok${poison}`)
  })
  const upstreams = newUpstreams()
  expect((await get(upstreams, plain(port), { target: '/poison' })).body).toBe('ok')
  expect((await get(upstreams, plain(port))).body).toBe('ok')
  expect(connections).toHaveLength(2)
})

test('an idle connection is given up before the server does, if the server says when', async () => {
  const { port, connections } = await startRawServer(socket => {
    socket.write('HTTP/1.1 200 OK\r\nContent-Length: 2\r\nKeep-Alive: timeout=1\r\n\r\nok')
  })
  const upstreams = newUpstreams()
  await get(upstreams, plain(port))
  await get(upstreams, plain(port))
  expect(connections).toHaveLength(2)
})

test.each([
  ['garbage', 'hello world\r\n\r\n'],
  ['two lengths', 'HTTP/1.1 200 OK\r\nContent-Length: 2\r\nContent-Length: 3\r\n\r\nabc'],
  ['an unasked upgrade', 'HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n'],
  ['too many informational replies', 'HTTP/1.1 103 Early Hints\r\n\r\n'.repeat(100)],
  ['too long headers', `HTTP/1.1 200 OK\r\nX: ${'a'.repeat(70_000)}\r\n\r\n`],
  ['bare line feeds', 'HTTP/1.1 200 OK\nContent-Length: 0\n\n'],
])('a server that sends %s is an error of the kind upstream_malformed', async (_what, reply) => {
  const { port } = await startRawServer(socket => socket.write(reply))
  await expect(get(newUpstreams(), plain(port))).rejects.toMatchObject({ kind: 'upstream_malformed', status: 502 })
})

test('informational replies before the real one are dropped', async () => {
  const { port } = await startRawServer(socket =>
    socket.write(
      'HTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\nHTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok',
    ),
  )
  expect(await get(newUpstreams(), plain(port))).toEqual({ status: 200, body: 'ok' })
})

test('a reply that is cut off fails while it is read', async () => {
  for (const reply of [
    'HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nabc',
    'HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nabc',
  ]) {
    const { port } = await startRawServer(socket => socket.end(reply))
    await expect(get(newUpstreams(), plain(port))).rejects.toMatchObject({ kind: 'upstream_closed' })
  }
})

test('a reply without length ends with its connection', async () => {
  const { port } = await startRawServer(socket => socket.end('HTTP/1.1 200 OK\r\n\r\nall of it'))
  expect(await get(newUpstreams(), plain(port))).toEqual({ status: 200, body: 'all of it' })
})

test('with Expect the body waits for the server', async () => {
  let beforeContinue = ''
  const { port } = await startRawServer((socket, received) => {
    if (received.endsWith('\r\n\r\n')) {
      beforeContinue = received
      setImmediate(() => socket.write('HTTP/1.1 100 Continue\r\n\r\n'))
    }
    if (received.endsWith('hello')) socket.write('HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n')
  })
  const upstream = await newUpstreams().acquire(plain(port), signal)
  const head = headFor(port, { method: 'POST', headers: [['Expect', '100-continue']] })
  const reply = await upstream.send({ head, body: Buffer.from('hello'), signal })
  expect(reply.head.status).toBe(200)
  expect(beforeContinue).toMatch(/Expect: 100-continue\r\n.*\r\n\r\n$/s)
})

test('with Expect a server that refuses never gets the body', async () => {
  let all = ''
  const { port } = await startRawServer((socket, received) => {
    all = received
    socket.write('HTTP/1.1 401 Unauthorized\r\nContent-Length: 0\r\n\r\n')
  })
  const upstream = await newUpstreams().acquire(plain(port), signal)
  const head = headFor(port, { method: 'POST', headers: [['Expect', '100-continue']] })
  const body = Readable.from([Buffer.from('hello')])
  expect((await upstream.send({ head, body, signal })).head.status).toBe(401)
  expect(all).not.toContain('hello')
})

test('an abort ends the request', async () => {
  const { port, connections } = await startRawServer(() => undefined)
  const controller = new AbortController()
  const upstream = await newUpstreams().acquire(plain(port), controller.signal)
  const sending = upstream.send({ head: headFor(port), body: null, signal: controller.signal })
  await expect.poll(() => connections.length).toBe(1)
  controller.abort(new Error('nobody waits'))
  await expect(sending).rejects.toThrow('nobody waits')
  await expect.poll(() => connections[0]?.destroyed).toBe(true)
})

test('a closed session loses its connections, those under way included', async () => {
  const { port, connections } = await startRawServer(() => undefined)
  const upstreams = newUpstreams()
  const upstream = await upstreams.acquire(plain(port), signal)
  const sending = upstream.send({ head: headFor(port), body: null, signal })
  upstreams.closeSession('session')
  await expect(sending).rejects.toMatchObject({ kind: 'upstream_closed' })
  await expect.poll(() => connections[0]?.destroyed).toBe(true)
})

test('addresses are tried in turn', async () => {
  const { port } = await startCounting()
  const addresses = [
    { address: '127.0.0.3', family: 4 },
    { address: '127.0.0.1', family: 4 },
  ] as const
  expect(await get(newUpstreams(), plain(port, { addresses }))).toMatchObject({ status: 200 })
})

test('a server that cannot be reached is an error in words', async () => {
  // The port of a server at another address: no other program can take it meanwhile.
  const { port } = await startCounting()
  const addresses = [{ address: '127.0.0.3', family: 4 }] as const
  await expect(get(newUpstreams(), plain(port, { addresses }))).rejects.toMatchObject({
    kind: 'unreachable',
    message: 'the server refuses connections',
  })
  await expect(get(newUpstreams(), plain(port, { addresses: [] }))).rejects.toMatchObject({ kind: 'unreachable' })
})
