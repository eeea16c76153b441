// WebSockets to shells, processes and ports, with backpressure in both directions: each side is read only as fast as the other takes the data.
import type { Duplex } from 'node:stream'
import { CHANNELS, type LimitHit, SandglassError, Signal, Size, SOCKET_FAILED } from '@sandglass/contract'
import { type ReadTimeout, writeDrained } from '@sandglass/runner-link/backpressure'
import type { RawData, WebSocket } from 'ws'
import { z } from 'zod'
import type { Logger } from '../../log.ts'
import type { SessionContext } from '../../sessions/context.ts'
import type { SessionStream } from '../../sessions/inside/request.ts'
import { explainLoss } from '../../sessions/lifecycle/explain-loss.ts'
import { slowReader, toSandglassError } from '../errors.ts'

const HIGH_WATER = 256 * 1024
const PING_MS = 30_000
const NORMAL = 1000

export type PumpOptions = {
  slowReader: ReadTimeout
  /** Adds the state of the session to the error of a lost connection. */
  explain: (error: unknown) => Promise<unknown>
  /** The limit that a program reached which ended with this code. */
  limitHit: (exitCode: number) => Promise<LimitHit | null>
  log: Logger
}

/** `limitHit` is for programs: a port has no exit code. */
export const pumpOptions = (
  context: SessionContext,
  { live }: SessionStream,
  log: Logger,
  limitHit: PumpOptions['limitHit'] = async () => null,
): PumpOptions => ({
  slowReader: slowReader(context.config.slow_reader_seconds),
  explain: error => explainLoss(context, live.record.id, error),
  limitHit,
  log,
})

/** A shell or process: each message is a channel byte and its payload. */
export function pumpChannels(socket: WebSocket, opened: SessionStream, options: PumpOptions): void {
  const send = sender(socket, options.slowReader)
  serve(socket, opened, options, {
    receive: data => fromClient(opened, data),
    async transmit() {
      for await (const { message, body } of opened.stream) {
        if (message.type === 'stdout' || message.type === 'stderr') {
          for await (const bytes of body) await send(framed(CHANNELS[message.type], bytes))
        } else if (message.type === 'exit') {
          const { exit_code, timed_out = false } = message
          const limit_hit = await options.limitHit(Number(exit_code))
          await send(framed(CHANNELS.exit, Buffer.from(JSON.stringify({ exit_code, timed_out, limit_hit }))))
          return
        }
      }
      throw new SandglassError('RUNNER_LOST', { id: opened.live.record.id })
    },
    fail: error => send(framed(CHANNELS.error, Buffer.from(JSON.stringify(error.toWire())))),
  })
}

/** A port: messages are raw bytes; an empty one from the client ends its direction. */
export function pumpRaw(socket: WebSocket, opened: SessionStream, options: PumpOptions): void {
  const send = sender(socket, options.slowReader)
  const raw: Duplex = opened.stream.raw()
  serve(socket, opened, options, {
    receive: async data => {
      if (data.length === 0) raw.end()
      else await writeDrained(raw, data)
    },
    async transmit() {
      for await (const bytes of raw) await send(bytes)
    },
    fail: async () => undefined,
  })
}

type Pump = { receive(data: Buffer): Promise<void>; transmit(): Promise<void>; fail(error: SandglassError): Promise<void> }

/** Runs until the stream ends or the client closes; then closes both and releases the lease. */
function serve(socket: WebSocket, opened: SessionStream, { explain, log }: PumpOptions, pump: Pump): void {
  let isFailing = false
  receiveInOrder(socket, pump, fail)
  const stopPinging = pinging(socket)
  socket.on('close', () => {
    stopPinging()
    opened.close()
  })
  // An error is always followed by close, which ends everything.
  socket.on('error', err => log.debug({ err }, 'websocket failed'))
  pump.transmit().then(() => socket.close(NORMAL), fail)

  function fail(error: unknown): void {
    if (isFailing || socket.readyState !== socket.OPEN) return
    isFailing = true
    explain(error).then(report, report)
  }

  function report(error: unknown): void {
    if (socket.readyState !== socket.OPEN) return
    const failure = toSandglassError(error, log)
    if (failure.code === 'SLOW_READER') {
      log.warn('slow reader disconnected')
      socket.terminate()
      return
    }
    pump
      .fail(failure)
      .catch(err => log.debug({ err }, 'error could not be sent'))
      .finally(() => socket.close(SOCKET_FAILED, failure.code))
  }
}

/** Handles messages one after another and does not read the socket meanwhile. */
function receiveInOrder(socket: WebSocket, pump: Pump, fail: (error: unknown) => void): void {
  let waiting = 0
  let tail = Promise.resolve()
  socket.on('message', (data: RawData) => {
    waiting++
    socket.pause()
    tail = tail
      .then(() => pump.receive(asBuffer(data)))
      .catch(fail)
      .finally(() => {
        waiting--
        // Also while the socket closes: the client's close frame has to be read.
        if (waiting === 0) socket.resume()
      })
  })
}

const SignalMessage = z.object({ signal: Signal })

async function fromClient({ stream }: SessionStream, data: Buffer): Promise<void> {
  const [channel] = data
  const payload = data.subarray(1)
  if (channel === CHANNELS.stdin) await stream.send({ type: 'stdin' }, payload)
  else if (channel === CHANNELS.stdin_eof) await stream.send({ type: 'stdin_eof' })
  else if (channel === CHANNELS.resize) await stream.send({ type: 'resize', ...Size.parse(json(payload)) })
  else if (channel === CHANNELS.signal) await stream.send({ type: 'signal', ...SignalMessage.parse(json(payload)) })
  else throw new SandglassError('INVALID_REQUEST', { issue: `no channel ${channel ?? 'in an empty message'} from the client` })
}

function json(payload: Buffer): unknown {
  try {
    return JSON.parse(payload.toString('utf8'))
  } catch (cause) {
    throw new SandglassError('INVALID_REQUEST', { issue: 'the message is not JSON' }, { cause })
  }
}

/** Waits only while much is unsent, so that small messages need no round trip. */
function sender(socket: WebSocket, timeout: ReadTimeout): (data: Uint8Array) => Promise<void> {
  return async data => {
    if (socket.readyState !== socket.OPEN) return
    const sent = new Promise<void>((resolve, reject) =>
      socket.send(data, { binary: true }, error => (error ? reject(error) : resolve())),
    )
    if (socket.bufferedAmount < HIGH_WATER) {
      sent.catch(() => undefined) // the socket's error event follows
      return
    }
    let timer: NodeJS.Timeout | undefined
    const slow = new Promise<never>((_, reject) => {
      timer = setTimeout(() => reject(timeout.error()), timeout.ms)
    })
    await Promise.race([sent, slow]).finally(() => clearTimeout(timer))
  }
}

function pinging(socket: WebSocket): () => void {
  let isAlive = true
  socket.on('pong', () => {
    isAlive = true
  })
  const timer = setInterval(() => {
    if (!isAlive) {
      socket.terminate()
      return
    }
    // A ping behind much unsent data would not reach a slow reader in time.
    if (socket.bufferedAmount >= HIGH_WATER) return
    isAlive = false
    socket.ping()
  }, PING_MS)
  return () => clearInterval(timer)
}

function framed(channel: number, payload: Uint8Array): Buffer {
  const frame = Buffer.allocUnsafe(payload.length + 1)
  frame[0] = channel
  frame.set(payload, 1)
  return frame
}

const asBuffer = (data: RawData): Buffer =>
  Array.isArray(data) ? Buffer.concat(data) : data instanceof ArrayBuffer ? Buffer.from(data) : data
