// An engine that is reached over TCP with TLS.
import { execFileSync } from 'node:child_process'
import { randomBytes } from 'node:crypto'
import { copyFileSync, mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { Readable } from 'node:stream'
import { buffer } from 'node:stream/consumers'
import { fileURLToPath } from 'node:url'
import { afterAll, expect, it, vi } from 'vitest'
import { freePort } from '../../testing/free-port.fixture.ts'
import { egressClient, exchange } from '../conformance/egress-client.fixture.ts'
import { boxOf, inBox, specOf, until } from '../conformance/subject.ts'
import { openDocker } from './backend.ts'
import { testEngine } from './engine/engine.fixture.ts'

// A private engine starts slowly on a busy machine.
vi.setConfig({ testTimeout: 120_000, hookTimeout: 120_000 })

const runnerPath = fileURLToPath(new URL('../../../../../runner/bin/runner', import.meta.url))
const folder = mkdtempSync(join(tmpdir(), 'sandglass-docker-tls-'))
const pem = (name: string) => join(folder, `${name}.pem`)
makeAuthority('ca')
makeAuthority('other')
makeCertificate('server', 'ca', 'subjectAltName=IP:127.0.0.1')
makeCertificate('client', 'ca', 'extendedKeyUsage=clientAuth')
makeCertificate('stranger', 'other', 'extendedKeyUsage=clientAuth')
const port = await freePort()
const tls = ['--tlsverify', `--tlscacert=${pem('ca')}`, `--tlscert=${pem('server')}`, `--tlskey=${pem('server-key')}`]
const engine = await testEngine('--host', `tcp://127.0.0.1:${port}`, ...tls)
afterAll(async () => {
  await engine.stop()
  rmSync(folder, { recursive: true, force: true })
})

const options = {
  dataDir: join(folder, 'data'),
  runnerPath,
  endpoint: `tcp://127.0.0.1:${port}`,
  tlsCa: pem('ca'),
  tlsCert: pem('client'),
  tlsKey: pem('client-key'),
}
const subject = { open: async () => openDocker(options), starter: [], allowUnenforced: ['disk'], strongest: 'sandbox' } as const
const soon = () => AbortSignal.timeout(60_000)

it('a remote machine runs commands and transfers files over one stream, and the next daemon recovers it', async () => {
  const backend = openDocker(options)
  const spec = specOf(subject, { memoryMb: 512 })
  const machine = await backend.start(spec, soon())
  expect(machine.mux).toBe(true)
  const box = boxOf(machine, spec, subject)
  expect((await box.run('id -un; pwd; export KEPT=yes; cd /tmp')).output).toBe('sandbox\n/workspace')
  const content = randomBytes(16 * 1024 * 1024)
  const put = await box.link.stream('file.put', { path: 'big' })
  await put.upload(Readable.from([content]), content.length)
  put.close()
  const [get, many] = await Promise.all([
    box.link.stream('file.get', { path: 'big' }),
    Promise.all(Array.from({ length: 20 }, (_, i) => box.link.request('exec', { cmd: `echo ${i}`, shell: `s${i % 5}` }))),
  ])
  expect((await buffer(get.replyBody())).equals(content)).toBe(true)
  expect(many.map(({ body }) => Number(body.toString()))).toEqual(Array.from({ length: 20 }, (_, i) => i))
  get.close()
  // As after kill -9, the old stream is not closed properly.
  const next = (await openDocker(options).recover()).find(({ id }) => id === spec.id)
  if (next === undefined) throw new Error('the machine was not found again')
  const taken = boxOf(next, spec, subject)
  expect((await taken.run('echo $KEPT; pwd')).output).toBe('yes\n/tmp')
  taken.link.close()
  box.link.close()
  await next.destroy()
})

it('the egress endpoint of a remote machine is reached through the one stream to its runner', async () => {
  await inBox(openDocker(options), subject, { egress: true }, async box => {
    expect(box.machine).toMatchObject({ mux: true, egress: { endpoint: { kind: 'relay' } } })
    const client = await egressClient(box)
    expect(await exchange(box, client, ['out', 'in'])).toEqual({ received: 'out', printed: 'in' })
    client.close()
  })
})

it('an engine whose certificate is signed by another authority is refused', async () => {
  const probe = await openDocker({ ...options, tlsCa: pem('other') }).probe()
  expect(probe).toMatchObject({ available: false, why: expect.stringMatching(/self-signed|unable to (verify|get)/) })
})

it('an engine that refuses our certificate is not used', async () => {
  const probe = await openDocker({ ...options, tlsCert: pem('stranger'), tlsKey: pem('stranger-key') }).probe()
  expect(probe.available).toBe(false)
})

it.each([
  ['tcp://127.0.0.1:1', { tlsCa: undefined }, 'needs tls_ca, tls_cert and tls_key'],
  ['tcp://127.0.0.1:1', { tlsKey: '/no/such/key.pem' }, '/no/such/key.pem cannot be read'],
  ['http://192.0.2.1:2375', {}, 'is not this machine'],
  ['tcp://127.0.0.1:1', { tlsCa: runnerPath }, `${runnerPath} cannot be used`],
  ['tcp://127.0.0.1:1', { tlsKey: pem('server-key') }, 'is not the key of'],
  ['ftp://x', {}, 'is neither unix:///path nor tcp://host:port'],
])('the endpoint %s with %o is refused with the reason', async (endpoint, changes, reason) => {
  const backend = openDocker({ ...options, endpoint, ...changes })
  const fix = expect.stringContaining('configuration')
  expect(await backend.probe()).toMatchObject({ available: false, why: expect.stringContaining(reason), fix })
  await expect(backend.prepare({ image: { kind: 'host' }, trust: null }, soon())).rejects.toMatchObject({
    code: 'BACKEND_UNAVAILABLE',
  })
})

it('a missing certificate file fails only calls to the engine, and is used once it is back', async () => {
  const tlsCa = pem('away')
  const backend = openDocker({ ...options, tlsCa })
  expect(await backend.probe()).toMatchObject({ available: false })
  await backend.pruneImages?.([], new Set())
  copyFileSync(pem('ca'), tlsCa)
  await until('the engine is used', async () => (await backend.probe()).available)
})

function makeAuthority(name: string): void {
  const subject = ['-subj', `/CN=${name}`, '-days', '2', '-keyout', pem(`${name}-key`), '-out', pem(name)]
  execFileSync('openssl', ['req', '-x509', '-newkey', 'rsa:2048', '-nodes', ...subject], { stdio: 'ignore' })
}

function makeCertificate(name: string, authority: string, extension: string): void {
  const request = join(folder, `${name}.csr`)
  const key = ['-newkey', 'rsa:2048', '-nodes', '-keyout', pem(`${name}-key`)]
  execFileSync('openssl', ['req', ...key, '-subj', `/CN=${name}`, '-addext', extension, '-out', request], { stdio: 'ignore' })
  const signer = ['-CA', pem(authority), '-CAkey', pem(`${authority}-key`), '-CAcreateserial', '-copy_extensions', 'copy']
  execFileSync('openssl', ['x509', '-req', '-in', request, ...signer, '-days', '2', '-out', pem(name)], { stdio: 'ignore' })
}
