// A WebSocket for Node that also reaches unix sockets, tells why an upgrade was refused, and can be paused.
import type { SocketConstructor, SocketLike } from '../transport/socket.ts'
import { CLOSE, closePayload, encodeFrame, FrameError, FrameReader, MAX_MESSAGE, OPCODES, readClose, readText } from './frames.ts'
import type { Upgrade, Upgraded } from './upgrade.ts'

type Events = {
  open: undefined
  message: { data: string | Uint8Array<ArrayBuffer> }
  error: { error: unknown; message: string }
  close: { code: number; reason: string }
}
type Listeners = { [Name in keyof Events]: ((event: Events[Name]) => void)[] }

/** How long the other side's part of the closing is waited for. */
const CLOSE_MS = 500
/** Answers to pings are left out while this much waits to be sent: a server that only pings and never reads would fill memory. */
const MAX_UNSENT_PONGS = 64 * 1024
/** Of one message: a part of a byte takes far more memory than a byte. */
const MAX_PARTS = 16 * 1024

/** The class of WebSockets that are opened by `upgrade`. */
export function webSocketOver(upgrade: Upgrade): SocketConstructor {
  return class extends NodeWebSocket {
    constructor(url: string, protocols: string[]) {
      super(upgrade, new URL(url), protocols)
    }
  }
}

class NodeWebSocket implements SocketLike {
  binaryType = 'arraybuffer'
  readonly #listeners: Listeners = { open: [], message: [], error: [], close: [] }
  readonly #connecting = new AbortController()
  readonly #frames = new FrameReader()
  readonly #masks = new Masks()
  #socket: Upgraded['socket'] | undefined
  /** The parts of a message so far, and what it is. */
  #parts: Uint8Array<ArrayBuffer>[] = []
  #partsSize = 0
  #opcode: number | undefined
  #isClosing = false
  /** How it ended: the first one that is known counts. */
  #end: Events['close'] | undefined

  constructor(upgrade: Upgrade, url: URL, protocols: readonly string[]) {
    upgrade(url, protocols, this.#connecting.signal).then(
      upgraded => this.#open(upgraded),
      error => {
        this.#fail(error)
        this.#emit('close', { code: CLOSE.lost, reason: '' })
      },
    )
  }

  get bufferedAmount(): number {
    return this.#socket?.writableLength ?? 0
  }

  addEventListener<Name extends keyof Events>(name: Name, listener: (event: Events[Name]) => void): void {
    this.#listeners[name].push(listener)
  }

  send(data: Uint8Array): void {
    if (!this.#isClosing) this.#write(OPCODES.binary, data)
  }

  /** The other side answers with the same; it is cut off when it does not. */
  close(code: number = CLOSE.normal, reason = ''): void {
    if (this.#isClosing) return
    this.#isClosing = true
    this.#connecting.abort() // no-op after the handshake, as the rest is before it
    this.#write(OPCODES.close, closePayload(code, reason))
    setTimeout(() => this.#socket?.destroy(), CLOSE_MS).unref()
  }

  pause(): void {
    this.#socket?.pause()
  }

  resume(): void {
    this.#socket?.resume()
  }

  #open({ socket, head }: Upgraded): void {
    this.#socket = socket
    if ('setNoDelay' in socket && typeof socket.setNoDelay === 'function') socket.setNoDelay(true)
    socket.on('error', error => {
      if (!this.#isClosing) this.#fail(error)
    })
    socket.on('close', () => this.#emit('close', this.#end ?? { code: CLOSE.lost, reason: '' }))
    if (this.#isClosing) return void socket.destroy() // closed at the very moment it opened
    this.#emit('open', undefined)
    socket.on('data', (piece: Buffer<ArrayBuffer>) => this.#receive(piece))
    if (head.length > 0) this.#receive(head)
  }

  #receive(piece: Uint8Array<ArrayBuffer>): void {
    if (this.#end) return // after its close frame a server has nothing to say
    try {
      for (const { opcode, isFinal, payload } of this.#frames.read(piece)) {
        if (opcode === OPCODES.close) {
          this.#answerClose(readClose(payload))
          return
        }
        if (opcode === OPCODES.ping) this.#pong(payload)
        else if (opcode !== OPCODES.pong) this.#take(opcode, isFinal, payload)
      }
    } catch (error) {
      if (!(error instanceof FrameError)) throw error
      this.#fail(error)
      this.#end = { code: CLOSE.lost, reason: '' }
      this.close(error.closeCode)
      this.#socket?.end()
    }
  }

  /** A frame of a message: the whole of it, or a part. */
  #take(opcode: number, isFinal: boolean, payload: Uint8Array<ArrayBuffer>): void {
    if ((opcode === OPCODES.continuation) !== (this.#opcode !== undefined))
      throw new FrameError('the parts of two messages are mixed')
    this.#opcode ??= opcode
    this.#partsSize += payload.length
    if (this.#partsSize > MAX_MESSAGE || this.#parts.length > MAX_PARTS)
      throw new FrameError('a message is too large', CLOSE.tooLarge)
    // A part that is kept must not keep the whole piece that it was read with.
    if (payload.length > 0) this.#parts.push(isFinal && this.#parts.length === 0 ? payload : payload.slice())
    if (!isFinal) return
    const whole = this.#parts.length === 1 && this.#parts[0] ? this.#parts[0] : joined(this.#parts, this.#partsSize)
    const data = this.#opcode === OPCODES.text ? readText(whole) : whole
    this.#parts = []
    this.#partsSize = 0
    this.#opcode = undefined
    this.#emit('message', { data })
  }

  #pong(payload: Uint8Array): void {
    if (!this.#isClosing && this.bufferedAmount < MAX_UNSENT_PONGS) this.#write(OPCODES.pong, payload)
  }

  #answerClose(end: Events['close']): void {
    this.#end = end
    this.close(end.code === CLOSE.noStatus ? CLOSE.normal : end.code)
    this.#socket?.end()
  }

  #write(opcode: number, payload: Uint8Array): void {
    if (this.#socket?.writable) this.#socket.write(encodeFrame(opcode, payload, this.#masks.next()))
  }

  #fail(error: unknown): void {
    this.#emit('error', { error, message: error instanceof Error ? error.message : String(error) })
  }

  #emit<Name extends keyof Events>(name: Name, event: Events[Name]): void {
    for (const listener of this.#listeners[name]) listener(event)
  }
}

function joined(parts: readonly Uint8Array[], size: number): Uint8Array<ArrayBuffer> {
  const whole = new Uint8Array(size)
  let at = 0
  for (const part of parts) {
    whole.set(part, at)
    at += part.length
  }
  return whole
}

/** SECURITY: a mask that could be foretold would let data look like a request of its own to a proxy on the way. */
class Masks {
  #pool = new Uint8Array(4 * 256)
  #at = this.#pool.length

  next(): Uint8Array {
    if (this.#at === this.#pool.length) {
      process.getBuiltinModule('node:crypto').randomFillSync(this.#pool)
      this.#at = 0
    }
    this.#at += 4
    return this.#pool.subarray(this.#at - 4, this.#at)
  }
}
