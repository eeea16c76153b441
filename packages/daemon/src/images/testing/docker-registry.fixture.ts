// For tests: Docker's own registry as a process, optionally with a password and TLS.
import { execFileSync, spawn } from 'node:child_process'
import { once } from 'node:events'
import { readFileSync, writeFileSync } from 'node:fs'
import { request as plainRequest, type RequestOptions } from 'node:http'
import { request as tlsRequest } from 'node:https'
import { join } from 'node:path'
import { onTestFinished } from 'vitest'
import { temporaryFolder, until } from '../../testing/daemon.fixture.ts'
import { freePort } from '../../testing/free-port.fixture.ts'
import { sha256, type TestImage } from './image.fixture.ts'

export interface DockerRegistry {
  readonly host: string
  /** Certificate file of a registry with TLS. */
  readonly certificate: string
  push(repository: string, tag: string, image: TestImage): Promise<void>
  stop(): Promise<void>
  start(): Promise<void>
}

export async function dockerRegistry({ isTls = false, account = '' } = {}): Promise<DockerRegistry> {
  const folder = await temporaryFolder()
  const port = await freePort()
  const host = `127.0.0.1:${port}`
  const certificate = join(folder, 'cert.pem')
  if (isTls) makeCertificate(folder)
  if (account) {
    const [user = '', password = ''] = account.split(':')
    writeFileSync(join(folder, 'htpasswd'), execFileSync('htpasswd', ['-Bbn', user, password]))
  }
  writeFileSync(join(folder, 'config.yml'), settings(folder, host, isTls, account !== ''))
  const send = sender(host, isTls ? readFileSync(certificate, 'utf8') : undefined, account)
  let stop = async () => undefined
  const start = async () => {
    const child = spawn('docker-registry', ['serve', join(folder, 'config.yml')], { stdio: ['ignore', 'ignore', 'pipe'] })
    let said = ''
    child.stderr.on('data', text => {
      said += text
    })
    stop = async () => {
      if (child.exitCode === null && child.signalCode === null && child.kill('SIGKILL')) await once(child, 'exit')
    }
    await until(async () => {
      if (child.exitCode !== null) throw new Error(`docker-registry ended: ${said}`)
      return await send('GET', '/v2/').catch(() => null)
    })
  }
  onTestFinished(() => stop())
  await start()
  return { host, certificate, start, stop: () => stop(), push: (repository, tag, image) => push(send, repository, tag, image) }
}

type Send = (method: string, path: string, body?: Buffer, type?: string) => Promise<{ status: number; location: string }>

async function push(send: Send, repository: string, tag: string, image: TestImage): Promise<void> {
  for (const blob of [image.config, ...image.layers.map(layer => layer.blob)]) {
    const { location } = await send('POST', `/v2/${repository}/blobs/uploads/`)
    const url = new URL(location)
    url.searchParams.set('digest', sha256(blob))
    await send('PUT', url.pathname + url.search, blob, 'application/octet-stream')
  }
  const { mediaType } = JSON.parse(image.manifest.toString()) as { mediaType: string }
  await send('PUT', `/v2/${repository}/manifests/${tag}`, image.manifest, mediaType)
}

function sender(host: string, ca: string | undefined, account: string): Send {
  const [hostname, port] = host.split(':')
  return (method, path, body, type) => {
    const headers = { ...(account ? { authorization: `Basic ${btoa(account)}` } : {}), ...(type ? { 'content-type': type } : {}) }
    const options: RequestOptions = { hostname, port, method, path, headers }
    const { promise, resolve, reject } = Promise.withResolvers<{ status: number; location: string }>()
    const call = ca === undefined ? plainRequest(options) : tlsRequest({ ...options, ca })
    call.once('error', reject).once('response', response => {
      response.resume()
      const status = response.statusCode ?? 0
      if (status >= 300) reject(new Error(`${method} ${path}: ${status}`))
      else resolve({ status, location: response.headers.location ?? '' })
    })
    call.end(body)
    return promise
  }
}

function settings(folder: string, host: string, isTls: boolean, hasAccount: boolean): string {
  return `version: 0.1
log: { level: error }
storage: { filesystem: { rootdirectory: ${folder}/data } }
http:
  addr: ${host}
${isTls ? `  tls: { certificate: ${folder}/cert.pem, key: ${folder}/key.pem }\n` : ''}${hasAccount ? `auth: { htpasswd: { realm: test, path: ${folder}/htpasswd } }\n` : ''}`
}

export function makeCertificate(folder: string): void {
  const key = ['-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:prime256v1', '-nodes', '-keyout', join(folder, 'key.pem')]
  const subject = ['-subj', '/CN=test', '-addext', 'subjectAltName=IP:127.0.0.1,DNS:localhost']
  execFileSync('openssl', ['req', '-x509', '-days', '2', ...key, ...subject, '-out', join(folder, 'cert.pem')], {
    stdio: 'ignore',
  })
}
