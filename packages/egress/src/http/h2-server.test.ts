import { once } from 'node:events'
import { constants, type IncomingHttpHeaders, type ServerHttp2Stream } from 'node:http2'
import { createServer as createHttpsServer } from 'node:https'
import { Readable } from 'node:stream'
import { buffer, text as readText } from 'node:stream/consumers'
import { connect as connectTls, type TLSSocket } from 'node:tls'
import { expect, onTestFinished, test } from 'vitest'
import { answerTo, ask, openH2, startH2Server } from './h2.fixture.ts'
import { listen, serverCertificate, startProxy, testAuthority } from './proxy.fixture.ts'
import { jsonReply, replyWith } from './reply.ts'

const MIB = 1024 * 1024

test('HTTP/2 on both sides: headers, bodies and trailers pass, as gRPC needs them', async () => {
  let received: IncomingHttpHeaders = {}
  let receivedTrailers: IncomingHttpHeaders = {}
  const { port: to } = await startH2Server((stream, headers) => {
    received = headers
    stream.on('trailers', trailers => {
      receivedTrailers = trailers
    })
    stream.respond({ ':status': 200, 'content-type': 'application/grpc' }, { waitForTrailers: true })
    stream.on('wantTrailers', () => stream.sendTrailers({ 'grpc-status': '0', 'grpc-message': 'ok' }))
    stream.on('data', data => stream.write(data)).on('end', () => stream.end())
  })
  const { session } = await openH2({ to })
  const stream = session.request({ ':method': 'POST', ':path': '/pkg.Service/Call', te: 'trailers' }, { waitForTrailers: true })
  stream.on('wantTrailers', () => stream.sendTrailers({ 'x-client': 'done' }))
  stream.end('message')
  const answer = await answerTo(stream)
  expect(answer.headers).toMatchObject({ ':status': 200, 'content-type': 'application/grpc' })
  expect(answer.body).toBe('message')
  expect(answer.trailers).toMatchObject({ 'grpc-status': '0', 'grpc-message': 'ok' })
  expect(received).toMatchObject({
    ':method': 'POST',
    ':path': '/pkg.Service/Call',
    ':authority': `localhost:${to}`,
    te: 'trailers',
  })
  expect(receivedTrailers).toMatchObject({ 'x-client': 'done' })
})

test('messages of a bidirectional stream are not held back', async () => {
  const { port: to } = await startH2Server(stream => {
    stream.respond({ ':status': 200 })
    stream.on('data', data => stream.write(`echo ${data}`))
  })
  const { session } = await openH2({ to })
  const stream = session.request({ ':method': 'POST', ':path': '/' })
  for (const message of ['one', 'two', 'three']) {
    stream.write(message)
    expect(String((await once(stream, 'data'))[0])).toBe(`echo ${message}`)
  }
  stream.close()
})

test('a trailers-only reply has no body', async () => {
  const { port: to } = await startH2Server(stream => stream.respond({ ':status': 200, 'grpc-status': '5' }, { endStream: true }))
  const { session } = await openH2({ to })
  expect(await ask(session)).toMatchObject({ headers: { ':status': 200, 'grpc-status': '5' }, body: '' })
})

test('all requests of a client share one session to the server', async () => {
  const { port: to, sessions } = await startH2Server((stream, headers) => {
    stream.respond({ ':status': 200 })
    stream.end(headers[':path'])
  })
  const { session } = await openH2({ to })
  const answers = await Promise.all(Array.from({ length: 50 }, (_, index) => ask(session, { ':path': `/${index}` })))
  expect(answers.map(({ body }) => body)).toEqual(Array.from({ length: 50 }, (_, index) => `/${index}`))
  expect(sessions()).toBe(1)
})

test('a server that speaks HTTP/1.1 serves an HTTP/2 client', async () => {
  const { secureContext } = await serverCertificate()
  const server = createHttpsServer({ SNICallback: (_name, done) => done(null, secureContext) }, async (request, response) => {
    const { cookie, host } = request.headers
    response.setHeader('Connection', 'keep-alive')
    response.setHeader('Trailer', 'X-Sum')
    response.write(JSON.stringify({ method: request.method, cookie, host, body: await readText(request) }))
    response.addTrailers({ 'X-Sum': '1' })
    response.end()
  })
  const to = await listen(server)
  const { session } = await openH2({ to })
  const stream = session.request({ ':method': 'POST', ':path': '/', cookie: ['a=1', 'b=2'] })
  stream.end('hello')
  const { headers, body, trailers } = await answerTo(stream)
  expect(headers.connection).toBe(undefined)
  expect(JSON.parse(body)).toEqual({ method: 'POST', cookie: 'a=1; b=2', host: `localhost:${to}`, body: 'hello' })
  expect(trailers).toMatchObject({ 'x-sum': '1' })
  const both = await Promise.all([ask(session), ask(session)])
  expect(both.map(({ headers }) => headers[':status'])).toEqual([200, 200])
})

test('100 MiB pass, and wait for a slow reader', async () => {
  let taken = 0
  const { port: to } = await startH2Server(stream => {
    stream.respond({ ':status': 200 })
    function* blocks() {
      for (let count = 0; count < 1600; count += 1) {
        taken += 65536
        yield Buffer.alloc(65536, count % 251)
      }
    }
    Readable.from(blocks()).pipe(stream)
  })
  const { session } = await openH2({ to })
  const stream = session.request({ ':path': '/' })
  await once(stream, 'response')
  let before = -1
  await expect
    .poll(
      () => {
        const isStill = taken > 0 && taken === before
        before = taken
        return isStill
      },
      { interval: 200 },
    )
    .toBe(true)
  expect(taken).toBeLessThan(20 * MIB)
  const body = await buffer(stream)
  expect(body.length).toBe(100 * MIB)
  expect(body[MIB * 50]).toBe(((50 * MIB) / 65536) % 251)
})

test.each([
  ['another host', { ':authority': 'evil.com' }, 421],
  ['another port', { ':authority': 'localhost:1' }, 421],
  ['the wrong host in Host', { host: 'evil.com' }, 421],
  ['a Host header that is not the :authority', { ':authority': '127.0.0.1', host: 'evil.com' }, 400],
  ['another scheme', { ':scheme': 'http' }, 400],
])('a request for %s is refused', async (_what, headers, status) => {
  const { proxy, session } = await openH2({ to: 1, host: '127.0.0.1' })
  const answer = await ask(session, headers)
  expect(answer.headers[':status']).toBe(status)
  expect(JSON.parse(answer.body)).toHaveProperty('message')
  expect(proxy.exchanges).toHaveLength(0)
  expect(proxy.refused).toHaveLength(1)
})

test('CONNECT is refused', async () => {
  const { session } = await openH2({ to: 1 })
  const stream = session.request({ ':method': 'CONNECT', ':authority': 'example.com:443' })
  const [headers] = (await once(stream, 'response')) as [IncomingHttpHeaders]
  expect(headers[':status']).toBe(501)
  expect(session.remoteSettings.enableConnectProtocol).not.toBe(true)
})

test('headers of more than 64 KiB are refused', async () => {
  const { session, proxy } = await openH2({ to: 1, handler: exchange => replyWith(exchange, jsonReply(200, 'ok')) })
  const headers = Object.fromEntries(Array.from({ length: 30 }, (_, index) => [`x-${index}`, 'a'.repeat(3000)]))
  const stream = session.request({ ':path': '/', ...headers })
  await expect(once(stream, 'response')).rejects.toThrow()
  expect(proxy.exchanges).toHaveLength(0)
})

test('a handler that answers early ends the upload', async () => {
  const { session } = await openH2({
    to: 1,
    handler: exchange => replyWith(exchange, jsonReply(403, { error: 'no' })),
    timeouts: { headMs: 1000, idleMs: 1000, lingerMs: 20 },
  })
  const stream = session.request({ ':method': 'POST', ':path': '/' })
  stream.on('error', () => undefined)
  stream.write('part')
  const { headers, body } = await answerTo(stream)
  expect(headers[':status']).toBe(403)
  expect(body).toBe('{"error":"no"}\n')
  if (!stream.closed) await once(stream, 'close')
})

test('a client that resets its stream ends the request at the server', async () => {
  const arrived = Promise.withResolvers<ServerHttp2Stream>()
  const { port: to } = await startH2Server(stream => arrived.resolve(stream))
  const { session, proxy } = await openH2({ to })
  const stream = session.request({ ':path': '/' })
  stream.on('error', () => undefined)
  const atServer = await arrived.promise
  stream.close(constants.NGHTTP2_CANCEL)
  if (!atServer.closed) await once(atServer, 'close')
  expect(proxy.exchanges[0]?.signal.aborted).toBe(true)
})

test('a client that closes its connection ends its requests at the server', async () => {
  const arrived = Promise.withResolvers<ServerHttp2Stream>()
  const { port: to } = await startH2Server(stream => arrived.resolve(stream))
  const { session, proxy } = await openH2({ to })
  session.request({ ':path': '/' }).on('error', () => undefined)
  const atServer = await arrived.promise
  session.destroy()
  if (!atServer.closed) await once(atServer, 'close')
  expect(proxy.exchanges[0]?.signal.aborted).toBe(true)
})

/** A connection that has agreed on HTTP/2 and sends frames as it likes. */
async function dialFrames(port: number): Promise<TLSSocket> {
  const trust = { servername: 'localhost', ca: testAuthority.certificate }
  const socket = connectTls({ port, host: '127.0.0.1', ...trust, ALPNProtocols: ['h2'] })
  socket.on('error', () => undefined).resume()
  onTestFinished(() => void socket.destroy())
  await once(socket, 'secureConnect')
  return socket
}

function frame(type: number, flags: number, stream: number, payload: Buffer): Buffer {
  const header = Buffer.alloc(9)
  header.writeUIntBE(payload.length, 0, 3)
  header.writeUInt8(type, 3)
  header.writeUInt8(flags, 4)
  header.writeUInt32BE(stream, 5)
  return Buffer.concat([header, payload])
}

test('a client that resets streams as fast as it opens them loses its connection', async () => {
  const proxy = await startProxy({ to: 1, handler: () => new Promise(() => undefined) })
  const socket = await dialFrames(proxy.port)
  const closed = new Promise<void>(resolve => socket.once('close', () => resolve()))
  const authority = Buffer.from(`localhost:${proxy.port}`)
  // GET / with scheme https, from the static table, and a literal :authority.
  const head = Buffer.concat([Buffer.from([0x82, 0x84, 0x87, 0x41, authority.length]), authority])
  socket.write('PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n')
  socket.write(frame(4, 0, 0, Buffer.alloc(0)))
  for (let id = 1; id < 4000; id += 2)
    socket.write(Buffer.concat([frame(1, 5, id, head), frame(3, 0, id, Buffer.from([0, 0, 0, 8]))]))
  await closed
  expect(proxy.exchanges.length).toBeLessThan(500)
})

test('no more than 100 streams are open at once', async () => {
  const gate = Promise.withResolvers<void>()
  const { session, proxy } = await openH2({
    to: 1,
    handler: async exchange => {
      await gate.promise
      await replyWith(exchange, jsonReply(200, 'ok'))
    },
  })
  await once(session, 'remoteSettings')
  const asking = Array.from({ length: 150 }, () => ask(session))
  await expect.poll(() => proxy.exchanges.length).toBe(100)
  gate.resolve()
  expect(await Promise.all(asking)).toHaveLength(150)
})

test('bytes that are no HTTP/2 end the connection', async () => {
  const { port } = await startProxy({ to: 1 })
  const socket = await dialFrames(port)
  socket.resume().write('GET / HTTP/1.1\r\nHost: localhost\r\n\r\n')
  await new Promise<void>(resolve => socket.once('close', () => resolve()))
})
