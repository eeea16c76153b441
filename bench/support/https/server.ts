// A server for benchmarks of the network: HTTPS on loopback with a private CA, in a process of its own.
import { execFileSync, spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { createServer } from 'node:https'
import type { AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'

export const BENCH_HOST = 'bench.upstream.example'
const CHUNK = Buffer.alloc(65_536, 'x')

export interface HttpsServer extends AsyncDisposable {
  readonly port: number
  readonly caFile: string
  readonly folder: string
}

/** Starts this file as a program. */
export async function startHttpsServer(): Promise<HttpsServer> {
  const folder = mkdtempSync(join(tmpdir(), 'sg-https-'))
  makeCertificate(folder, `DNS:${BENCH_HOST},DNS:localhost,IP:127.0.0.1`)
  const child = spawn(process.execPath, [import.meta.filename, folder], { stdio: ['pipe', 'pipe', 'inherit'] })
  const [line] = await once(child.stdout, 'data')
  return {
    port: Number(line),
    caFile: join(folder, 'ca.pem'),
    folder,
    async [Symbol.asyncDispose]() {
      child.stdin.end()
      if (child.exitCode === null) await once(child, 'exit')
      rmSync(folder, { recursive: true, force: true })
    },
  }
}

/** Writes ca.pem, and server.pem and server.key for the names. */
export function makeCertificate(folder: string, names: string): void {
  const path = (name: string) => join(folder, name)
  const openssl = (...args: string[]) => execFileSync('openssl', args, { stdio: 'ignore' })
  const ec = ['-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:P-256', '-nodes']
  openssl('req', '-x509', ...ec, '-keyout', path('ca.key'), '-out', path('ca.pem'), '-days', '2', '-subj', '/CN=Benchmark CA')
  openssl('req', ...ec, '-keyout', path('server.key'), '-out', path('server.csr'), '-subj', '/CN=server')
  writeFileSync(path('names'), `subjectAltName=${names}`)
  openssl(
    ...['x509', '-req', '-in', path('server.csr'), '-CA', path('ca.pem'), '-CAkey', path('ca.key'), '-CAcreateserial'],
    ...['-out', path('server.pem'), '-days', '2', '-extfile', path('names')],
  )
}

/** Answers /bytes/N with N bytes. */
function serve(folder: string): void {
  const read = (name: string) => readFileSync(join(folder, name))
  const server = createServer({ cert: read('server.pem'), key: read('server.key') }, async (request, response) => {
    let left = Number(request.url?.slice('/bytes/'.length))
    response.writeHead(200, { 'content-length': left })
    for (; left > 0; left -= CHUNK.length)
      if (!response.write(left >= CHUNK.length ? CHUNK : CHUNK.subarray(0, left))) await once(response, 'drain')
    response.end()
  })
  server.keepAliveTimeout = 60_000
  server.listen(0, '127.0.0.1', () => process.stdout.write(`${(server.address() as AddressInfo).port}\n`))
  process.stdin.resume().once('end', () => process.exit(0))
}

if (process.argv[1] === import.meta.filename) serve(process.argv[2] ?? '')
