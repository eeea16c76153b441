import { once } from 'node:events'
import { type AddressInfo, connect, createServer } from 'node:net'
import { expect, onTestFinished, test } from 'vitest'
import { createAuthority } from './authority.ts'
import { createLeafCache } from './leaf.ts'
import { terminateTls } from './terminate.ts'
import { connectTls, createTrust } from './upstream-tls.ts'

const authority = await createAuthority()
const DAY_MS = 86_400_000
const trust = createTrust([authority.certificate])

/** Port of a TLS server with a certificate for `host`, made at another time if one is given. */
async function serve(host: string, now = Date.now(), signer = authority): Promise<number> {
  const context = await createLeafCache(() => now).contextFor(signer, host)
  const server = createServer(socket => {
    onTestFinished(() => void socket.destroy())
    terminateTls(socket, context, { alpn: ['h2'] }).catch(() => undefined) // a client that refuses the certificate
  }).listen(0, '127.0.0.1')
  await once(server, 'listening')
  onTestFinished(() => void server.close())
  return (server.address() as AddressInfo).port
}

async function dial(port: number, host: string, alpn: string[] = ['h2']) {
  const socket = connect({ port, host: '127.0.0.1' })
  await once(socket, 'connect')
  onTestFinished(() => void socket.destroy())
  return await connectTls(socket, { host, alpn, context: trust, signal: null })
}

test('a server with a certificate of an extra root is accepted, and the protocol agreed on', async () => {
  const port = await serve('example.com')
  const secure = await dial(port, 'example.com', ['h2', 'http/1.1'])
  expect(secure.authorized).toBe(true)
  expect(secure.alpnProtocol).toBe('h2')
})

test('an address is verified against the addresses of the certificate', async () => {
  await dial(await serve('127.0.0.1'), '127.0.0.1')
  await expect(dial(await serve('example.com'), '127.0.0.1')).rejects.toThrow('is for another host')
})

test('the error says what is wrong with a certificate', async () => {
  await expect(dial(await serve('other.example'), 'example.com')).rejects.toThrow(
    'the certificate of example.com is for another host',
  )
  await expect(dial(await serve('example.com', Date.now() - 90 * DAY_MS), 'example.com')).rejects.toThrow('has expired')
  await expect(dial(await serve('example.com', Date.now() + 30 * DAY_MS), 'example.com')).rejects.toThrow('is not valid yet')
  const stranger = await createAuthority()
  await expect(dial(await serve('example.com', Date.now(), stranger), 'example.com')).rejects.toThrow('unknown authority')
})

test('a server that does not speak TLS is an error of the kind upstream_tls', async () => {
  const server = createServer(socket => {
    socket.on('error', () => undefined)
    socket.end('HTTP/1.1 400 Bad Request\r\n\r\n')
  }).listen(0, '127.0.0.1')
  await once(server, 'listening')
  onTestFinished(() => void server.close())
  await expect(dial((server.address() as AddressInfo).port, 'example.com')).rejects.toMatchObject({
    kind: 'upstream_tls',
    status: 502,
  })
})

test('an abort ends the handshake', async () => {
  const server = createServer(() => undefined).listen(0, '127.0.0.1')
  await once(server, 'listening')
  const socket = connect({ port: (server.address() as AddressInfo).port, host: '127.0.0.1' })
  onTestFinished(() => void server.close())
  await once(socket, 'connect')
  const controller = new AbortController()
  const connecting = connectTls(socket, { host: 'example.com', alpn: [], context: trust, signal: controller.signal })
  controller.abort(new Error('the request is gone'))
  await expect(connecting).rejects.toThrow('the request is gone')
  expect(socket.destroyed).toBe(true)
})
