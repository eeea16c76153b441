// A WebSocket for Node that works over unix sockets, reports why an upgrade was refused, and can be paused.
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

/** How long to wait for the close frame of the other side. */
const CLOSE_MS = 500
/** No pongs while this much is unsent: a server that pings and never reads would fill the memory. */
const MAX_UNSENT_PONGS = 64 * 1024
/** Parts of one message: a part of one byte takes far more memory than a byte. */
const MAX_PARTS = 16 * 1024

/** A WebSocket class whose connections are opened by `upgrade`. */
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
  /** The parts of an incomplete message, and its opcode. */
  #parts: Uint8Array<ArrayBuffer>[] = []
  #partsSize = 0
  #opcode: number | undefined
  #isClosing = false
  /** How the connection ended: the first known end counts. */
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

  /** Waits for the close frame of the other side, then ends the connection. */
  close(code: number = CLOSE.normal, reason = ''): void {
    if (this.#isClosing) return
    this.#isClosing = true
    this.#connecting.abort() // no effect after the handshake; the rest has none before it
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
    if (this.#isClosing) return void socket.destroy() // closed during the handshake
    this.#emit('open', undefined)
    socket.on('data', (piece: Buffer<ArrayBuffer>) => this.#receive(piece))
    if (head.length > 0) this.#receive(head)
  }

  #receive(piece: Uint8Array<ArrayBuffer>): void {
    if (this.#end) return // data after a close frame is ignored
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

  /** Handles a data frame: a whole message, or a part of one. */
  #take(opcode: number, isFinal: boolean, payload: Uint8Array<ArrayBuffer>): void {
    if ((opcode === OPCODES.continuation) !== (this.#opcode !== undefined))
      throw new FrameError('the parts of two messages are mixed')
    this.#opcode ??= opcode
    this.#partsSize += payload.length
    if (this.#partsSize > MAX_MESSAGE || this.#parts.length > MAX_PARTS)
      throw new FrameError('a message is too large', CLOSE.tooLarge)
    // Copied, because a view would keep the whole piece in memory.
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

/** SECURITY: with a predictable mask, data could look like a separate request to a proxy. */
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
