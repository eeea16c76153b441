// fetch with keep-alive and unix sockets, and with less work per call than the global one.
import type { Agent, ClientRequest, IncomingMessage } from 'node:http'
import type { NetConnectOpts } from 'node:net'
import type { SandglassError } from '@sandglass/contract/tables'
import type { BodySource } from '../transport/body.ts'
import { decodeError } from '../transport/errors.ts'
import type { FetchInit, FetchLike, ResponseLike } from '../transport/transport.ts'
import { withResolvers } from '../transport/with-resolvers.ts'
import { FileBody } from './file-body.ts'

// Not imported: an import reads every export of a module, and those of node:http load fetch and WebSocket, which takes longer than most commands.
const http = process.getBuiltinModule('node:http')
const { Socket } = process.getBuiltinModule('node:net')
const { once } = process.getBuiltinModule('node:events')
const { pipeline } = process.getBuiltinModule('node:stream/promises')

const READ_BYTES = 128 * 1024

/** A connection that reads into one buffer: the HTTP parser copies the data out of it. */
class KeptSocket extends Socket {
  #buffer = Buffer.allocUnsafeSlow(READ_BYTES)

  constructor() {
    super({ onread: { buffer: () => this.#buffer, callback: length => this.#take(length) } })
  }

  /** False pauses the socket until the next read. */
  #take(length: number): boolean {
    const wantsMore = this.push(this.#buffer.subarray(0, length))
    // The chunk is still in the queue of the socket, so its buffer cannot be reused.
    if (this.readableLength > 0) this.#buffer = Buffer.allocUnsafeSlow(READ_BYTES)
    return wantsMore
  }
}

/** fetch over a unix socket; the host in the URL is ignored. */
export const unixFetch = (socketPath: string): FetchLike => fetchWith({ socketPath })

/** fetch over TCP; plain http only. */
export const nodeFetch = (): FetchLike => fetchWith({})

/** Calls go to the unix socket, or without one to the host in the URL. */
export type Target = { socketPath?: string }

function fetchWith(target: Target): FetchLike {
  // Idle sockets do not keep the process running: the agent unrefs them.
  const agent = new http.Agent({ keepAlive: true, maxFreeSockets: 64, scheduling: 'lifo' })
  agent.createConnection = options => new KeptSocket().connect(options as NetConnectOpts)
  return (url, init) => send(agent, target, url, init)
}

async function send(agent: Agent, target: Target, url: string, init: FetchInit): Promise<ResponseLike> {
  const { promise, resolve, reject } = withResolvers<IncomingMessage>()
  const call = http.request({
    agent,
    ...requestTo(target, new URL(url)),
    method: init.method,
    headers: withLength(init.headers, init.body),
    signal: init.signal,
  })
  call.on('response', resolve).on('error', reject)
  // The agent refs a socket when it reuses it.
  if (init.background) call.once('socket', socket => void socket.unref())
  await Promise.all([promise, sendBody(call, init.body, promise)])
  return answer(await promise)
}

/** The target of a request, as options of http.request. */
export function requestTo(target: Target, { hostname, port, pathname, search }: URL) {
  const path = pathname + search
  if (target.socketPath !== undefined) return { socketPath: target.socketPath, path }
  return { hostname: hostname.replace(/^\[(.*)\]$/, '$1'), port, path } // an IPv6 address has brackets only in a URL
}

function withLength(headers: Record<string, string>, body: BodySource | undefined): Record<string, string> {
  if (typeof body === 'string') return { ...headers, 'content-length': String(Buffer.byteLength(body)) }
  if (body instanceof Uint8Array) return { ...headers, 'content-length': String(body.byteLength) }
  if (body instanceof Blob || body instanceof FileBody) return { ...headers, 'content-length': String(body.size) }
  return headers
}

/** The server may answer before it has read the whole body; the rest is then dropped. */
async function sendBody(call: ClientRequest, body: BodySource | undefined, answered: Promise<unknown>): Promise<void> {
  if (body === undefined || typeof body === 'string' || body instanceof Uint8Array) {
    call.end(body)
    return
  }
  await connected(call)
  const sent = body instanceof FileBody ? sendFile(call, body) : pipeline(body instanceof Blob ? body.stream() : body, call)
  await Promise.race([sent, answered])
  sent.catch(() => undefined) // the reply has arrived
}

/** A stream can be read once. Connect before reading the body, so that a caller who finds no daemon can try again with the same body. */
async function connected(call: ClientRequest): Promise<void> {
  if (call.socket === null) await once(call, 'socket')
  if (call.socket?.connecting) await once(call.socket, 'connect')
}

async function sendFile(call: ClientRequest, body: FileBody): Promise<void> {
  try {
    await body.sendTo(call)
    call.end()
  } catch (error) {
    call.destroy(error instanceof Error ? error : undefined)
    throw error
  }
}

/** The error in the reply to a refused upgrade. */
export const upgradeError = (message: IncomingMessage): Promise<SandglassError> => decodeError(answer(message))

function answer(message: IncomingMessage): ResponseLike {
  const status = message.statusCode ?? 0
  let body: ReadableStream<Uint8Array> | undefined
  return {
    status,
    ok: status >= 200 && status < 300,
    headers: {
      get(name) {
        const value = message.headers[name.toLowerCase()]
        return value === undefined ? null : String(value)
      },
    },
    get body() {
      body ??= streamOf(message)
      return body
    },
    async text() {
      message.setEncoding('utf8')
      let text = ''
      for await (const piece of message) text += piece
      return text
    },
  }
}

/** Queued bytes from which on the socket is paused. */
const HIGH_WATER = 1024 * 1024

/** Like Readable.toWeb with less work per chunk: the socket is paused while the queue is full. */
function streamOf(message: IncomingMessage): ReadableStream<Uint8Array> {
  const start = (controller: ReadableStreamDefaultController<Uint8Array>) => {
    message.on('data', (chunk: Buffer) => {
      controller.enqueue(chunk)
      if ((controller.desiredSize ?? 0) <= 0) message.pause()
    })
    message.once('error', error => controller.error(error))
    // A reply that is cut off has no end event, only close.
    message.once('close', () => {
      if (!message.readableEnded && !message.errored) controller.error(new Error('the connection was lost'))
    })
    message.once('end', () => controller.close())
    message.pause()
  }
  return new ReadableStream(
    { start, pull: () => void message.resume(), cancel: () => void message.destroy() },
    new ByteLengthQueuingStrategy({ highWaterMark: HIGH_WATER }),
  )
}
