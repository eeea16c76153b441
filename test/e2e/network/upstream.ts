// Servers on this machine that stand for servers on the network: HTTPS with a private CA, for HTTP/1.1, HTTP/2, WebSockets and git, and plain HTTP.
import { execFileSync, spawn } from 'node:child_process'
import { createHash } from 'node:crypto'
import { type EventEmitter, once } from 'node:events'
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { createServer as createHttpServer, type IncomingMessage } from 'node:http'
import { createSecureServer, type Http2ServerRequest } from 'node:http2'
import type { AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { gzipSync } from 'node:zlib'
import { WebSocketServer } from 'ws'

export const API = 'api.upstream.example'
export const OTHER = 'other.upstream.example'
const NAMES = [API, OTHER, 'plain.upstream.example', 'grpc.upstream.example', '*.wild.upstream.example']

type Request = IncomingMessage | Http2ServerRequest
/** What both versions of a response have in common. */
type Response = EventEmitter & {
  writeHead(status: number, headers: Record<string, string>): unknown
  write(chunk: string | Buffer): boolean
  end(chunk: string | Buffer): unknown
}

export interface Seen {
  readonly method: string
  readonly url: string
  readonly headers: Request['headers']
  readonly body: string
}

export interface Upstream extends AsyncDisposable {
  readonly folder: string
  readonly caFile: string
  readonly tlsPort: number
  readonly plainPort: number
  /** Requests in the order of their arrival. */
  readonly seen: Seen[]
  /** Configuration of a daemon that reaches these servers under their names. */
  readonly egress: { ca_files: string[]; overrides: Record<string, string> }
}

export async function startUpstream(): Promise<Upstream> {
  const folder = mkdtempSync(join(tmpdir(), 'sg-upstream-'))
  const { caFile, cert, key } = makeCertificates(folder)
  makeRepository(join(folder, 'project.git'))
  makePackage(join(folder, PACKAGE))
  const seen: Seen[] = []
  const handle = (request: Request, response: Response) => void answer(request, response, seen, folder)
  const tls = createSecureServer({ cert, key, allowHTTP1: true }, handle)
  const sockets = new WebSocketServer({ noServer: true })
  tls.on('upgrade', (request: IncomingMessage, socket, head) => {
    seen.push({ method: 'UPGRADE', url: request.url ?? '', headers: request.headers, body: '' })
    sockets.handleUpgrade(request, socket, head, ws => ws.on('message', data => ws.send(`echo ${data}`)))
  })
  const plain = createHttpServer(handle)
  tls.listen(0, '127.0.0.1')
  plain.listen(0, '127.0.0.1')
  await Promise.all([once(tls, 'listening'), once(plain, 'listening')])
  const [tlsPort, plainPort] = [tls, plain].map(server => (server.address() as AddressInfo).port)
  if (tlsPort === undefined || plainPort === undefined) throw new Error('no port')
  const overrides = Object.fromEntries(
    [API, OTHER, 'plain.upstream.example', 'a.wild.upstream.example', 'b.wild.upstream.example'].flatMap(name => [
      [`${name}:443`, `127.0.0.1:${tlsPort}`],
      [`${name}:80`, `127.0.0.1:${plainPort}`],
    ]),
  )
  return {
    folder,
    caFile,
    tlsPort,
    plainPort,
    seen,
    egress: { ca_files: [caFile], overrides },
    async [Symbol.asyncDispose]() {
      sockets.close()
      plain.closeAllConnections()
      plain.close()
      tls.close()
      rmSync(folder, { recursive: true, force: true })
    },
  }
}

async function answer(request: Request, response: Response, seen: Seen[], folder: string): Promise<void> {
  const url = new URL(request.url ?? '/', 'https://x')
  if (url.pathname.startsWith('/project.git/')) return git(request, response, url, folder)
  if (url.pathname.startsWith('/simple/')) return packageIndex(response, url.pathname, folder)
  if (url.pathname === '/download') return await download(response, Number(url.searchParams.get('bytes')))
  const hash = createHash('sha256')
  const parts: Buffer[] = []
  let length = 0
  for await (const chunk of request as AsyncIterable<Buffer>) {
    hash.update(chunk)
    length += chunk.length
    if (length < 100_000) parts.push(chunk)
  }
  const body = Buffer.concat(parts).toString('utf8')
  seen.push({ method: request.method ?? '', url: request.url ?? '', headers: request.headers, body })
  const reply = (status: number, text: string, headers: Record<string, string> = {}) => {
    response.writeHead(status, { 'content-type': 'text/plain', ...headers })
    response.end(text)
  }
  switch (url.pathname) {
    case '/upload':
      return reply(200, `${length} ${hash.digest('hex')}`)
    case '/token':
      return reply(request.headers.authorization === url.searchParams.get('want') ? 200 : 401, 'checked')
    case '/reflect':
      return reply(200, `you sent ${request.headers.authorization} ${body}`, { 'x-echo': String(request.headers.authorization) })
    case '/reflect-gzip': {
      response.writeHead(200, { 'content-encoding': 'gzip' })
      return void response.end(gzipSync(`you sent ${request.headers.authorization}`))
    }
    case '/redirect':
      return reply(302, '', { location: url.searchParams.get('to') ?? '/' })
    case '/events':
      return await events(response)
    default:
      return reply(
        200,
        `${request.httpVersion} ${request.method} ${request.headers.host ?? request.headers[':authority']} ${request.url}\n`,
      )
  }
}

async function download(response: Response, bytes: number): Promise<void> {
  const chunk = Buffer.alloc(65_536, 'x')
  response.writeHead(200, { 'content-length': String(bytes) })
  for (let left = bytes; left > 0; left -= chunk.length)
    if (!response.write(left >= chunk.length ? chunk : chunk.subarray(0, left))) await once(response, 'drain')
  response.end('')
}

async function events(response: Response): Promise<void> {
  response.writeHead(200, { 'content-type': 'text/event-stream' })
  response.write('data: one\n\n')
  response.write('data: two\n\n')
  response.end('data: three\n\n')
}

/** The CGI program that comes with git. */
function git(request: Request, response: Response, url: URL, folder: string): void {
  const child = spawn('git', ['http-backend'], {
    env: {
      PATH: process.env.PATH,
      GIT_PROJECT_ROOT: folder,
      GIT_HTTP_EXPORT_ALL: '1',
      PATH_INFO: url.pathname,
      QUERY_STRING: url.search.slice(1),
      REQUEST_METHOD: request.method,
      CONTENT_TYPE: request.headers['content-type'] ?? '',
      HTTP_CONTENT_ENCODING: String(request.headers['content-encoding'] ?? ''),
      REMOTE_USER: request.headers.authorization ? 'somebody' : '',
      HTTP_GIT_PROTOCOL: String(request.headers['git-protocol'] ?? ''),
    },
    stdio: ['pipe', 'pipe', 'inherit'],
  })
  request.pipe(child.stdin)
  const chunks: Buffer[] = []
  child.stdout.on('data', chunk => chunks.push(chunk))
  child.once('close', () => {
    const all = Buffer.concat(chunks)
    const end = all.indexOf('\r\n\r\n')
    const lines = all.subarray(0, end).toString().split('\r\n')
    const headers = Object.fromEntries(lines.map(line => line.split(': ') as [string, string]))
    const { Status, ...rest } = headers
    response.writeHead(Number(Status?.split(' ')[0] ?? 200), rest)
    response.end(all.subarray(end + 4))
  })
}

function makeRepository(path: string): void {
  execFileSync('git', ['init', '--bare', '-q', '-b', 'main', path])
  execFileSync('git', ['-C', path, 'config', 'http.receivepack', 'true'])
  const work = `${path}.work`
  mkdirSync(work)
  const run = (...args: string[]) => execFileSync('git', ['-C', work, '-c', 'user.name=a', '-c', 'user.email=a@b', ...args])
  run('init', '-q', '-b', 'main')
  writeFileSync(join(work, 'hello.txt'), 'hello from the repository\n')
  run('add', '.')
  run('commit', '-qm', 'first')
  run('push', '-q', path, 'main')
}

const PACKAGE = 'demo_package-1.0-py3-none-any.whl'

/** The smallest package that pip installs. */
function makePackage(path: string): void {
  const source = `
import zipfile
info = 'demo_package-1.0.dist-info/'
with zipfile.ZipFile('${path}', 'w') as wheel:
    wheel.writestr('demo_package.py', 'print("a package from the index")')
    wheel.writestr(info + 'METADATA', 'Metadata-Version: 2.1\\nName: demo-package\\nVersion: 1.0\\n')
    wheel.writestr(info + 'WHEEL', 'Wheel-Version: 1.0\\nGenerator: test\\nRoot-Is-Purelib: true\\nTag: py3-none-any\\n')
    wheel.writestr(info + 'RECORD', '')
`
  execFileSync('/usr/bin/python3', ['-c', source])
}

/** An index as pip reads it: a page with links. */
function packageIndex(response: Response, path: string, folder: string): void {
  const isFile = path.endsWith('.whl')
  response.writeHead(200, { 'content-type': isFile ? 'application/octet-stream' : 'text/html' })
  response.end(isFile ? readFileSync(join(folder, PACKAGE)) : `<a href="/simple/${PACKAGE}">${PACKAGE}</a>`)
}

export function makeCertificates(folder: string): { caFile: string; cert: Buffer; key: Buffer } {
  const path = (name: string) => join(folder, name)
  const openssl = (...args: string[]) => execFileSync('openssl', args, { stdio: ['ignore', 'ignore', 'pipe'] })
  const ec = ['-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:P-256', '-nodes']
  openssl('req', '-x509', ...ec, '-keyout', path('ca.key'), '-out', path('ca.pem'), '-days', '30', '-subj', '/CN=Private test CA')
  openssl('req', ...ec, '-keyout', path('server.key'), '-out', path('server.csr'), '-subj', '/CN=upstream')
  writeFileSync(path('names'), `subjectAltName=${NAMES.map(name => `DNS:${name}`).join(',')}`)
  openssl(
    ...['x509', '-req', '-in', path('server.csr'), '-CA', path('ca.pem'), '-CAkey', path('ca.key'), '-CAcreateserial'],
    ...['-out', path('server.pem'), '-days', '30', '-extfile', path('names')],
  )
  return { caFile: path('ca.pem'), cert: readFileSync(path('server.pem')), key: readFileSync(path('server.key')) }
}
