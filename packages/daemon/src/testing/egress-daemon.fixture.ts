// For tests: a daemon with the real egress process, and servers on this machine that its sessions reach under names of their own.
import { execFileSync } from 'node:child_process'
import { once } from 'node:events'
import { readFileSync, writeFileSync } from 'node:fs'
import { createServer, type IncomingMessage, type Server } from 'node:http'
import { createServer as createTlsServer } from 'node:https'
import type { AddressInfo } from 'node:net'
import { join } from 'node:path'
import { onTestFinished } from 'vitest'
import { daemonFixture, type FixtureOptions, plainChild, type TestDaemon, temporaryFolder } from './daemon.fixture.ts'

export const API = 'api.upstream.example'
export const OTHER = 'other.upstream.example'

export type EgressDaemon = {
  daemon: TestDaemon
  /** Requests that the servers have seen, in the order of their arrival. */
  seen: { url: string; headers: IncomingMessage['headers'] }[]
  /** Sends a request from a session, through the proxy port of its runner. Returns the status; 000 for a connection that was cut. */
  send(session: string, url: string, ...curlArgs: string[]): Promise<string>
  /** Closes the daemon and opens the next one on the same folder. */
  restart(): Promise<TestDaemon>
}

export async function egressDaemonFixture(egress: object = {}): Promise<EgressDaemon> {
  const [dataDir, machines, folder] = [await temporaryFolder(), await temporaryFolder(), await temporaryFolder()]
  const seen: EgressDaemon['seen'] = []
  const { ca, ...server } = certificates(folder)
  const answer = (request: IncomingMessage, response: { end(text: string): unknown }) => {
    seen.push({ url: request.url ?? '', headers: request.headers })
    response.end('hello')
  }
  const ports = [await listening(createServer(answer)), await listening(createTlsServer(server, answer))]
  const overrides = Object.fromEntries(
    [API, OTHER].flatMap(name => [80, 443].map((port, i) => [`${name}:${port}`, `127.0.0.1:${ports[i]}`])),
  )
  const config = join(folder, 'config.yaml')
  writeFileSync(config, JSON.stringify({ egress: { overrides, ca_files: [ca], ...egress } }), { mode: 0o600 })
  const options: FixtureOptions = { dataDir, backends: () => [plainChild(machines)], flags: { config: [config] } }
  const made: EgressDaemon = {
    daemon: await daemonFixture(options),
    seen,
    async send(session, url, ...curlArgs) {
      const argv = [
        'curl',
        '-sk',
        '-m',
        '20',
        '-o',
        '/dev/null',
        '-w',
        '%{http_code}',
        '-x',
        'http://127.0.0.53:3128',
        ...curlArgs,
        url,
      ]
      const cmd = argv.map(arg => `'${arg}'`).join(' ')
      const { body } = await made.daemon.call('POST', `/v1/sessions/${session}/exec`, { cmd, timeout_ms: 25_000 })
      return (body as { output: string }).output.trim()
    },
    async restart() {
      await made.daemon.close()
      made.daemon = await daemonFixture(options)
      return made.daemon
    },
  }
  return made
}

async function listening(server: Server): Promise<number> {
  server.listen(0, '127.0.0.1')
  onTestFinished(() => {
    server.closeAllConnections()
    server.close()
  })
  await once(server, 'listening')
  return (server.address() as AddressInfo).port
}

function certificates(folder: string): { ca: string; key: Buffer; cert: Buffer } {
  const path = (name: string) => join(folder, name)
  const openssl = (...args: string[]) => execFileSync('openssl', args, { stdio: ['ignore', 'ignore', 'pipe'] })
  const fresh = ['-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:P-256', '-nodes']
  openssl('req', '-x509', ...fresh, '-keyout', path('ca.key'), '-out', path('ca.pem'), '-days', '2', '-subj', '/CN=Test CA')
  openssl('req', ...fresh, '-keyout', path('key'), '-out', path('csr'), '-subj', '/CN=upstream')
  writeFileSync(path('names'), `subjectAltName=DNS:${API},DNS:${OTHER}`)
  const signed = ['-CA', path('ca.pem'), '-CAkey', path('ca.key'), '-CAcreateserial', '-days', '2', '-extfile', path('names')]
  openssl('x509', '-req', '-in', path('csr'), '-out', path('cert'), ...signed)
  return { ca: path('ca.pem'), key: readFileSync(path('key')), cert: readFileSync(path('cert')) }
}
