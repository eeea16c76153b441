import { execFileSync } from 'node:child_process'
import { X509Certificate } from 'node:crypto'
import { once } from 'node:events'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { type AddressInfo, createServer } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { type ConnectionOptions, connect, type TLSSocket } from 'node:tls'
import { expect, onTestFinished, test } from 'vitest'
import { createAuthority, fingerprintOf } from './authority.ts'
import { createLeafCache } from './leaf.ts'
import { terminateTls } from './terminate.ts'

const authority = await createAuthority()
const DAY_MS = 86_400_000

/** Port of a server that terminates TLS for one host. */
async function serveHost(host: string, cache = createLeafCache()): Promise<number> {
  const server = createServer(socket => {
    cache
      .contextFor(authority, host)
      .then(context => terminateTls(socket, context, { alpn: ['http/1.1'] }))
      .then(
        secure => secure.end('hello'),
        () => socket.destroy(), // a client that gave up
      )
  }).listen(0, '127.0.0.1')
  await once(server, 'listening')
  onTestFinished(() => void server.close())
  return (server.address() as AddressInfo).port
}

async function connectTo(port: number, options: ConnectionOptions): Promise<TLSSocket> {
  const socket = connect({ host: '127.0.0.1', port, ca: authority.certificate, ...options })
  onTestFinished(() => void socket.destroy())
  await once(socket, 'secureConnect')
  return socket
}

test('a certificate authority has the constraints of one, and a name of its own', async () => {
  const certificate = new X509Certificate(authority.certificate)
  expect(certificate.ca).toBe(true)
  expect(certificate.subject).toMatch(/CN=Sandglass CA [0-9a-f]{8}/)
  expect(certificate.verify(certificate.publicKey)).toBe(true)
  expect(Date.parse(certificate.validTo) - Date.now()).toBeGreaterThan(4.9 * 365 * DAY_MS)
  expect(authority.fingerprint).toBe(fingerprintOf(authority.certificate))
  expect(authority.fingerprint).toMatch(/^[0-9a-f]{64}$/)
  expect((await createAuthority()).fingerprint).not.toBe(authority.fingerprint)
})

test('OpenSSL accepts the chain under its strictest checks', async () => {
  const socket = await connectTo(await serveHost('example.com'), { servername: 'example.com' })
  const folder = mkdtempSync(join(tmpdir(), 'leaf-'))
  onTestFinished(() => rmSync(folder, { recursive: true }))
  writeFileSync(join(folder, 'ca.pem'), authority.certificate)
  writeFileSync(join(folder, 'leaf.pem'), new X509Certificate(socket.getPeerCertificate().raw).toString())
  const args = [
    'verify',
    '-x509_strict',
    '-purpose',
    'sslserver',
    '-verify_hostname',
    'example.com',
    '-CAfile',
    join(folder, 'ca.pem'),
  ]
  expect(execFileSync('openssl', [...args, join(folder, 'leaf.pem')], { encoding: 'utf8' })).toContain('OK')
})

test('a certificate is for exactly one name, and valid for at most 90 days from a time in the past', async () => {
  const socket = await connectTo(await serveHost('example.com'), { servername: 'example.com' })
  const certificate = new X509Certificate(socket.getPeerCertificate().raw)
  expect(certificate.subjectAltName).toBe('DNS:example.com')
  expect(certificate.ca).toBe(false)
  const [from, to] = [Date.parse(certificate.validFrom), Date.parse(certificate.validTo)]
  expect(from).toBeLessThan(Date.now() - DAY_MS)
  expect(to).toBeGreaterThan(Date.now() + 30 * DAY_MS)
  expect(to - from).toBeLessThanOrEqual(90 * DAY_MS)
})

test('a client that asks for an address verifies the address', async () => {
  await connectTo(await serveHost('127.0.0.1'), {})
  const wrong = connect({ host: '127.0.0.1', port: await serveHost('10.0.0.1'), ca: authority.certificate })
  const [error] = (await once(wrong, 'error')) as [NodeJS.ErrnoException]
  expect(error.code).toBe('ERR_TLS_CERT_ALTNAME_INVALID')
})

test('a long name and a name with a wildcard shape get a certificate', async () => {
  const long = `${'a'.repeat(60)}.${'b'.repeat(60)}.example.com`
  await connectTo(await serveHost(long), { servername: long })
})

test('connections at the same time get the same context', async () => {
  const cache = createLeafCache()
  const [first, second, other] = await Promise.all([
    cache.contextFor(authority, 'example.com'),
    cache.contextFor(authority, 'example.com'),
    cache.contextFor(authority, 'example.org'),
  ])
  expect(second).toBe(first)
  expect(other).not.toBe(first)
  expect(await cache.contextFor(await createAuthority(), 'example.com')).not.toBe(first)
})

test('a context is made anew before its certificate expires', async () => {
  let now = Date.now()
  const cache = createLeafCache(() => now)
  const first = await cache.contextFor(authority, 'example.com')
  now += 29 * DAY_MS
  expect(await cache.contextFor(authority, 'example.com')).toBe(first)
  now += 2 * DAY_MS
  expect(await cache.contextFor(authority, 'example.com')).not.toBe(first)
})

for (const version of ['TLSv1.2', 'TLSv1.3'] as const) {
  test(`a client resumes its session with ${version}`, async () => {
    const port = await serveHost('example.com')
    const first = connect({ host: '127.0.0.1', port, servername: 'example.com', ca: authority.certificate, maxVersion: version })
    const [session] = (await once(first, 'session')) as [Buffer]
    const second = await connectTo(port, { servername: 'example.com', session, maxVersion: version })
    expect(second.getProtocol()).toBe(version)
    expect(second.isSessionReused()).toBe(true)
  })
}
