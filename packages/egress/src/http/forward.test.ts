// Whole exchanges: a client, the proxy, a server.
import { execFile } from 'node:child_process'
import { createHash } from 'node:crypto'
import { once } from 'node:events'
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { createServer as createHttpServer, request as httpRequest, type IncomingMessage } from 'node:http'
import { createServer as createHttpsServer, get as httpsGet, request as httpsRequest } from 'node:https'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { Readable } from 'node:stream'
import { text as readText } from 'node:stream/consumers'
import { promisify } from 'node:util'
import { expect, onTestFinished, test } from 'vitest'
import { dialTest, exchangeRaw, listen, serverCertificate, startProxy, startRawServer, testAuthority } from './proxy.fixture.ts'

const run = promisify(execFile)
const MIB = 1024 * 1024

/** Options of node's clients that make them trust the proxy. */
const client = { host: '127.0.0.1', servername: 'localhost', ca: testAuthority.certificate }

/** Yields `total` bytes, all different from their neighbours, and counts what was taken. */
function* pattern(total: number, taken: { bytes: number }): Generator<Buffer> {
  const block = Buffer.from(Array.from({ length: 65536 }, (_, at) => (at * 31 + (at >> 8)) & 0xff))
  for (let left = total; left > 0; left -= block.length) {
    taken.bytes += Math.min(left, block.length)
    yield left < block.length ? block.subarray(0, left) : block
  }
}

function digest(total: number): string {
  const hash = createHash('sha256')
  for (const part of pattern(total, { bytes: 0 })) hash.update(part)
  return hash.digest('hex')
}

async function digestOf(stream: AsyncIterable<Buffer>): Promise<string> {
  const hash = createHash('sha256')
  for await (const part of stream) hash.update(part)
  return hash.digest('hex')
}

async function secureServer(handler: Parameters<typeof createHttpServer>[1] & object): Promise<number> {
  const { secureContext } = await serverCertificate()
  return await listen(createHttpsServer({ SNICallback: (_name, done) => done(null, secureContext) }, handler))
}

async function reply(request: ReturnType<typeof httpsRequest>): Promise<IncomingMessage> {
  const [response] = (await once(request, 'response')) as [IncomingMessage]
  return response
}

test('a request and its reply arrive as they were sent', async () => {
  let received: { line: string; headers: string[]; body: string } | undefined
  const to = await secureServer(async (request, response) => {
    received = { line: `${request.method} ${request.url}`, headers: request.rawHeaders, body: await readText(request) }
    response.writeHead(201, { 'X-Reply': 'yes', 'Alt-Svc': 'h3=":443"', 'Set-Cookie': ['a=1', 'b=2'] })
    response.end('created')
  })
  const { port } = await startProxy({ to })
  const request = httpsRequest({
    ...client,
    port,
    method: 'POST',
    path: '/a?b=c',
    headers: { 'X-Custom': 'Value', 'Content-Length': 5 },
  })
  request.end('hello')
  const response = await reply(request)
  expect(response.statusCode).toBe(201)
  expect(response.headers).toMatchObject({ 'x-reply': 'yes', 'set-cookie': ['a=1', 'b=2'] })
  expect(response.headers['alt-svc']).toBe(undefined)
  expect(await readText(response)).toBe('created')
  expect(received).toEqual({
    line: 'POST /a?b=c',
    headers: ['X-Custom', 'Value', 'Content-Length', '5', 'Host', `localhost:${to}`],
    body: 'hello',
  })
})

for (const framing of ['length', 'chunks'] as const) {
  test(`100 MiB go both ways unchanged, with ${framing}`, async () => {
    const total = 100 * MIB
    const headers = framing === 'length' ? { 'Content-Length': total } : {}
    const to = await secureServer(async (request, response) => {
      const uploaded = await digestOf(request)
      response.writeHead(200, { ...headers, 'X-Uploaded': uploaded })
      Readable.from(pattern(total, { bytes: 0 })).pipe(response)
    })
    const { port, exchanges } = await startProxy({ to })
    const request = httpsRequest({ ...client, port, method: 'PUT', headers })
    Readable.from(pattern(total, { bytes: 0 })).pipe(request)
    const response = await reply(request)
    const expected = digest(total)
    expect(response.headers['x-uploaded']).toBe(expected)
    expect(await digestOf(response)).toBe(expected)
    expect(exchanges[0]).toMatchObject({ bytesReceived: total, bytesSent: total })
  })
}

test('a client that does not read stops the server, and gets everything later', async () => {
  const total = 100 * MIB
  const taken = { bytes: 0 }
  const to = await secureServer((_request, response) => {
    response.writeHead(200, { 'Content-Length': total })
    Readable.from(pattern(total, taken)).pipe(response)
  })
  const { port } = await startProxy({ to })
  const response = await reply(httpsGet({ ...client, port }))
  await settled(() => taken.bytes)
  expect(taken.bytes).toBeGreaterThan(0)
  expect(taken.bytes).toBeLessThan(40 * MIB)
  expect(await digestOf(response)).toBe(digest(total))
})

test('a server that does not read stops the client, and gets everything later', async () => {
  const total = 100 * MIB
  const taken = { bytes: 0 }
  const gate = Promise.withResolvers<void>()
  const to = await secureServer(async (request, response) => {
    await gate.promise
    response.end(await digestOf(request))
  })
  const { port } = await startProxy({ to })
  const request = httpsRequest({ ...client, port, method: 'PUT', headers: { 'Content-Length': total } })
  Readable.from(pattern(total, taken)).pipe(request)
  await settled(() => taken.bytes)
  expect(taken.bytes).toBeLessThan(40 * MIB)
  gate.resolve()
  expect(await readText(await reply(request))).toBe(digest(total))
})

/** Waits until a number has stopped to grow. */
async function settled(read: () => number): Promise<void> {
  let [last, same] = [-1, 0]
  await expect
    .poll(
      () => {
        same = read() === last && last > 0 ? same + 1 : 0
        last = read()
        return same
      },
      { interval: 20 },
    )
    .toBeGreaterThan(10)
}

test('server-sent events arrive one by one', async () => {
  const next: (() => void)[] = []
  const to = await secureServer((_request, response) => {
    response.writeHead(200, { 'Content-Type': 'text/event-stream' }).flushHeaders()
    next.push(
      () => response.write('data: 1\n\n'),
      () => response.write('data: 2\n\n'),
      () => response.end(),
    )
  })
  const { port } = await startProxy({ to })
  const response = await reply(httpsGet({ ...client, port }))
  for (const event of ['data: 1\n\n', 'data: 2\n\n']) {
    const arriving = once(response, 'data')
    next.shift()?.()
    expect(String((await arriving)[0])).toBe(event)
  }
  next.shift()?.()
  await once(response, 'end')
})

test('trailers are passed on, in both directions', async () => {
  let received: unknown
  const to = await secureServer(async (request, response) => {
    await readText(request)
    received = request.trailers
    response.writeHead(200, { Trailer: 'X-Sum' })
    response.write('body')
    response.addTrailers({ 'X-Sum': 'abc' })
    response.end()
  })
  const { port } = await startProxy({ to })
  const request = httpsRequest({ ...client, port, method: 'POST', headers: { Trailer: 'X-Up' } })
  request.write('up')
  request.addTrailers({ 'X-Up': 'def' })
  request.end()
  const response = await reply(request)
  expect(await readText(response)).toBe('body')
  expect(response.trailers).toEqual({ 'x-sum': 'abc' })
  expect(received).toEqual({ 'x-up': 'def' })
})

test('a server that answers before it has the body is heard, and the rest of the body is not sent', async () => {
  const to = await secureServer((_request, response) => {
    response.writeHead(413, { 'Content-Length': 9, Connection: 'close' })
    response.end('too large')
  })
  const { port } = await startProxy({ to })
  const request = httpsRequest({ ...client, port, method: 'PUT' })
  request.on('error', () => undefined) // the rest of the upload
  request.write(Buffer.alloc(MIB))
  const response = await reply(request)
  expect(response.statusCode).toBe(413)
  expect(await readText(response)).toBe('too large')
})

test('a server that closes within a body makes the client see a broken reply', async () => {
  const { port: to } = await startRawServer(socket => socket.end('HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nonly this'))
  const { port } = await startProxy({ to, scheme: 'http' })
  const request = httpRequest({ host: '127.0.0.1', port })
  request.end()
  await expect(readText(await reply(request))).rejects.toThrow('aborted')
})

test('a client that goes away ends the request at the server', async () => {
  const gone = Promise.withResolvers<void>()
  const arrived = Promise.withResolvers<void>()
  const to = await secureServer((request, _response) => {
    arrived.resolve()
    request.socket.once('close', () => gone.resolve())
  })
  const { port } = await startProxy({ to })
  const request = httpsGet({ ...client, port }).on('error', () => undefined)
  await arrived.promise
  request.destroy()
  await gone.promise
})

test('a client that goes away while a body arrives ends the request at the server', async () => {
  const gone = Promise.withResolvers<void>()
  const to = await secureServer((_request, response) => {
    response.once('close', () => gone.resolve())
    Readable.from(pattern(100 * MIB, { bytes: 0 })).pipe(response)
  })
  const { port } = await startProxy({ to })
  const response = await reply(httpsGet({ ...client, port }))
  response.destroy()
  await gone.promise
})

test('curl gets pages, sends forms with Expect, and keeps its connection, over HTTP/1.1 and HTTP/2', async () => {
  const to = await secureServer(async (request, response) =>
    response.end(`${request.method} ${(await readText(request)).length}\n`),
  )
  const folder = await mkdtemp(join(tmpdir(), 'forward-'))
  onTestFinished(() => rm(folder, { recursive: true }))
  const authority = join(folder, 'ca.pem')
  await writeFile(authority, testAuthority.certificate)
  for (const [version, isWrapped] of [
    ['--http1.1', false],
    ['--http1.1', true],
    ['--http2', false],
    ['--http2', true],
  ] as const) {
    const { port, sockets } = await startProxy({ to, isWrapped })
    const url = `https://localhost:${port}/`
    const common = ['-sS', version, '--cacert', authority, '--resolve', `localhost:${port}:127.0.0.1`]
    const curl = (...args: string[]) => run('curl', [...common, ...args])
    expect((await curl(url, url)).stdout).toBe('GET 0\nGET 0\n')
    expect(sockets.size).toBe(1)
    expect((await curl('-d', 'x'.repeat(2_000_000 / 20), '-H', 'Expect: 100-continue', url)).stdout).toBe('POST 100000\n')
    expect((await curl('-I', url)).stdout).toMatch(/^HTTP\/[\d.]+ 200/)
  }
})

test('a WebSocket handshake turns both connections into raw bytes', async () => {
  const server = createHttpServer()
  server.on('upgrade', (request, socket, early) => {
    socket.write(
      `HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nX-Key: ${request.headers['sec-websocket-key']}\r\n\r\n`,
    )
    if (early.length > 0) socket.write(early)
    socket.pipe(socket)
  })
  const { port } = await startProxy({ to: await listen(server), scheme: 'http' })
  const socket = dialTest(port)
  let text = ''
  socket.on('data', data => {
    text += data
  })
  socket.write(
    `GET / HTTP/1.1\r\nHost: 127.0.0.1:${port}\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Key: k\r\n\r\nearly `,
  )
  await expect.poll(() => text).toContain('X-Key: k')
  socket.write('and late')
  await expect.poll(() => text).toMatch(/\r\n\r\nearly and late$/)
  socket.end()
  await once(socket, 'end')
})

test('a WebSocket that the server declines is an ordinary reply', async () => {
  const { port: to } = await startRawServer(socket =>
    socket.write('HTTP/1.1 426 Upgrade Required\r\nContent-Length: 2\r\n\r\nno'),
  )
  const { port } = await startProxy({ to, scheme: 'http' })
  const upgrade = `GET / HTTP/1.1\r\nHost: 127.0.0.1:${port}\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n`
  expect(await exchangeRaw(port, upgrade, text => text.endsWith('no'))).toMatch(/^HTTP\/1.1 426 .*no$/s)
})
