import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { type AddressInfo, connect as connectPlain, createServer, type Socket } from 'node:net'
import { Duplex } from 'node:stream'
import { type ConnectionOptions, connect, type TLSSocket } from 'node:tls'
import { expect, onTestFinished, test } from 'vitest'
import { createAuthority } from './authority.ts'
import { createLeafCache } from './leaf.ts'
import { terminateTls } from './terminate.ts'

const authority = await createAuthority()
const cache = createLeafCache()

/** Port of a server that passes each connection on, and gives what came of it. */
async function start(accept: (socket: Socket) => Promise<TLSSocket>): Promise<{ port: number; outcome: Promise<TLSSocket> }> {
  const { promise: outcome, resolve, reject } = Promise.withResolvers<TLSSocket>()
  outcome.catch(() => undefined)
  const server = createServer({ allowHalfOpen: true }, socket => {
    socket.on('error', () => undefined)
    onTestFinished(() => void socket.destroy())
    accept(socket).then(resolve, reject)
  }).listen(0, '127.0.0.1')
  await once(server, 'listening')
  onTestFinished(() => void server.close())
  return { port: (server.address() as AddressInfo).port, outcome }
}

const terminate = async (socket: Duplex, alpn = ['h2', 'http/1.1']) =>
  await terminateTls(socket, await cache.contextFor(authority, 'localhost'), { alpn })

function client(port: number, options: ConnectionOptions = {}): TLSSocket {
  const socket = connect({ host: '127.0.0.1', port, servername: 'localhost', ca: authority.certificate, ...options })
  socket.on('error', () => undefined)
  onTestFinished(() => void socket.destroy())
  return socket
}

test('the preferred protocol that both sides know is agreed on', async () => {
  const { port, outcome } = await start(terminate)
  client(port, { ALPNProtocols: ['http/1.1', 'h2'] })
  expect((await outcome).alpnProtocol).toBe('h2')
})

test('bytes that were read before are part of the handshake', async () => {
  const { port, outcome } = await start(async socket => {
    const [first] = (await once(socket, 'data')) as [Buffer]
    socket.pause()
    socket.removeAllListeners('data')
    socket.unshift(first)
    return await terminate(socket)
  })
  const socket = client(port)
  socket.write('ping')
  const [received] = (await once(await outcome, 'data')) as [Buffer]
  expect(received.toString()).toBe('ping')
})

test('a connection that is no socket can be terminated too', async () => {
  const { port, outcome } = await start(socket => {
    const wrapped = new Duplex({
      read: () => void socket.resume(),
      write: (chunk, _encoding, done) => void socket.write(chunk, done),
      final: done => void socket.end(done),
    })
    socket.on('data', data => wrapped.push(data) || socket.pause()).on('end', () => wrapped.push(null))
    return terminate(wrapped)
  })
  const socket = client(port)
  const secure = await outcome
  secure.write('pong')
  const [received] = (await once(socket, 'data')) as [Buffer]
  expect(received.toString()).toBe('pong')
})

test('a client that does not trust the certificate gets none of the bytes', async () => {
  const { port, outcome } = await start(terminate)
  const curl = spawn('curl', ['--silent', `https://127.0.0.1:${port}/`])
  await expect(outcome).rejects.toThrow(/unknown ca/)
  const [code] = await once(curl, 'exit')
  expect(code).toBe(60)
})

test('a client that sends something else than TLS is refused', async () => {
  const { port, outcome } = await start(terminate)
  connectPlain(port, '127.0.0.1').write('GET / HTTP/1.1\r\n\r\n')
  await expect(outcome).rejects.toThrow()
})

test('a client that closes before the handshake is an error', async () => {
  const { port, outcome } = await start(terminate)
  connectPlain(port, '127.0.0.1').end()
  await expect(outcome).rejects.toThrow()
})

test('a handshake that takes too long is given up, and the connection closed', async () => {
  const { port, outcome } = await start(async socket =>
    terminateTls(socket, await cache.contextFor(authority, 'localhost'), { alpn: [], timeoutMs: 20 }),
  )
  const silent = connectPlain(port, '127.0.0.1')
  silent.on('error', () => undefined)
  await expect(outcome).rejects.toThrow('took too long')
  if (!silent.closed) await once(silent, 'close')
})

test('bytes that are no TLS record end the connection after the handshake too', async () => {
  const { port, outcome } = await start(terminate)
  const relay = createServer(toClient => {
    const toServer = connectPlain(port, '127.0.0.1')
    for (const socket of [toClient, toServer]) socket.on('error', () => undefined)
    toClient.pipe(toServer).pipe(toClient)
    outcome.then(
      () => toServer.write('this is no record'),
      () => undefined,
    )
  }).listen(0, '127.0.0.1')
  await once(relay, 'listening')
  onTestFinished(() => void relay.close())
  client((relay.address() as AddressInfo).port)
  const secure = await outcome
  await new Promise<void>(resolve => secure.once('close', resolve).resume())
})
