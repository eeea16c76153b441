// HTTP/2 clients and servers around the proxy.
import { once } from 'node:events'
import {
  type ClientHttp2Session,
  type ClientHttp2Stream,
  connect,
  createSecureServer,
  type Http2SecureServer,
  type IncomingHttpHeaders,
  type OutgoingHttpHeaders,
  type ServerHttp2Stream,
} from 'node:http2'
import { text as readText } from 'node:stream/consumers'
import { onTestFinished } from 'vitest'
import { listen, type ProxyOptions, serverCertificate, startProxy, type TestProxy, testAuthority } from './proxy.fixture.ts'

type StreamHandler = (stream: ServerHttp2Stream, headers: IncomingHttpHeaders) => void

export async function startH2Server(
  handler: StreamHandler,
): Promise<{ port: number; server: Http2SecureServer; sessions: () => number }> {
  const { secureContext } = await serverCertificate()
  const server = createSecureServer({ SNICallback: (_name, done) => done(null, secureContext) })
  let sessions = 0
  server.on('session', session => {
    sessions += 1
    session.on('error', () => undefined)
    onTestFinished(() => session.destroy())
  })
  server.on('stream', (stream, headers) => {
    stream.on('error', () => undefined)
    handler(stream, headers)
  })
  return { port: await listen(server), server, sessions: () => sessions }
}

export async function openH2(options: ProxyOptions): Promise<{ proxy: TestProxy; session: ClientHttp2Session }> {
  const proxy = await startProxy(options)
  const session = connect(`https://127.0.0.1:${proxy.port}`, { ca: testAuthority.certificate, servername: 'localhost' })
  session.on('error', () => undefined)
  onTestFinished(() => session.destroy())
  return { proxy, session }
}

interface Answer {
  readonly headers: IncomingHttpHeaders
  readonly body: string
  readonly trailers: IncomingHttpHeaders
}

export async function answerTo(stream: ClientHttp2Stream): Promise<Answer> {
  let trailers: IncomingHttpHeaders = {}
  stream.on('trailers', headers => {
    trailers = headers
  })
  const [headers] = (await once(stream, 'response')) as [IncomingHttpHeaders]
  return { headers, body: await readText(stream), trailers }
}

export const ask = (session: ClientHttp2Session, headers: OutgoingHttpHeaders = {}) =>
  answerTo(session.request({ ':path': '/', ...headers }))
