import { once } from 'node:events'
import { readFileSync } from 'node:fs'
import type { RequestListener } from 'node:http'
import { createServer } from 'node:https'
import type { AddressInfo } from 'node:net'
import { join } from 'node:path'
import { getCACertificates, setDefaultCACertificates } from 'node:tls'
import type { Config } from '@sandglass/contract'
import { describe, expect, it, onTestFinished } from 'vitest'
import { temporaryFolder } from '../../testing/daemon.fixture.ts'
import { parseReference } from '../reference.ts'
import { makeCertificate } from '../testing/docker-registry.fixture.ts'
import { Registry } from './registry.ts'

async function authority(): Promise<{ folder: string; file: string; text: string }> {
  const folder = await temporaryFolder()
  makeCertificate(folder)
  const file = join(folder, 'cert.pem')
  return { folder, file, text: readFileSync(file, 'utf8') }
}

async function serve(folder: string, answer: RequestListener): Promise<number> {
  const [key, cert] = ['key.pem', 'cert.pem'].map(name => readFileSync(join(folder, name)))
  const server = createServer({ key, cert }, answer).listen(0, '127.0.0.1')
  onTestFinished(() => {
    server.closeAllConnections()
    server.close()
  })
  await once(server, 'listening')
  return (server.address() as AddressInfo).port
}

async function manifest(host: string, registries: Config['registries']): Promise<string> {
  const registry = new Registry(parseReference(`${host}/app:1`), registries)
  onTestFinished(() => registry.close())
  return (await registry.manifest('1', AbortSignal.timeout(20_000))).bytes.toString()
}

describe('the certificate authority of a registry', () => {
  it('is trusted in addition to the default ones', async () => {
    const [usual, own] = [await authority(), await authority()]
    const before = getCACertificates('default')
    onTestFinished(() => setDefaultCACertificates(before))
    setDefaultCACertificates([...before, usual.text])
    for (const { folder } of [usual, own]) {
      const host = `localhost:${await serve(folder, (_request, response) => void response.end('{}'))}`
      expect(await manifest(host, { [host]: { ca_file: own.file } })).toBe('{}')
    }
  })

  it('is not trusted for the target of a redirect, unless it is configured for that host', async () => {
    const own = await authority()
    const other = await serve(own.folder, (_request, response) => void response.end('{"token":"t"}'))
    for (const how of ['redirect', 'realm']) {
      const host = `127.0.0.1:${await serve(own.folder, (request, response) => {
        const there = `https://localhost:${other}/`
        if (request.headers.authorization === 'Bearer t') response.end('{"token":"t"}')
        else if (how === 'redirect') response.writeHead(302, { location: there }).end()
        else response.writeHead(401, { 'www-authenticate': `Bearer realm="${there}"` }).end()
      })}`
      const settings = { ca_file: own.file }
      await expect(manifest(host, { [host]: settings })).rejects.toMatchObject({
        code: 'REGISTRY_FAILED',
        message: expect.stringContaining(`localhost:${other}: self-signed certificate`),
      })
      expect(await manifest(host, { [host]: settings, [`localhost:${other}`]: settings })).toBe('{"token":"t"}')
    }
  })
})
