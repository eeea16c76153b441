// One stream of the multiplexer as a Duplex. Each side sends only as many bytes as the other has granted as credit.
import { Duplex } from 'node:stream'
import { ProtocolError } from './wire.ts'

const INITIAL_CREDIT = 262_144
const MAX_CREDIT = 16 * 1024 * 1024
/** Credit for consumed bytes is sent in portions, so that small reads do not cost a frame each. */
const GRANT_BYTES = 65_536

export interface MuxStreamCarrier {
  sendData(payload: Uint8Array): void
  sendCredit(bytes: number): void
  sendEnd(): void
  sendReset(): void
  isFull(): boolean
  /** Calls flush() when the carrier has drained. */
  waitForCarrier(): void
  gone(): void
  readonly maxPayload: number
}

type Callback = (error?: Error | null) => void

export class MuxStream extends Duplex {
  readonly #carrier: MuxStreamCarrier
  #sendCredit = INITIAL_CREDIT
  #pending: Buffer[] = []
  #written: Callback | undefined
  #received = 0
  #granted = 0
  #ended = { here: false, there: false }

  constructor(carrier: MuxStreamCarrier) {
    super({ allowHalfOpen: true })
    this.#carrier = carrier
  }

  /** Called with each piece of a DATA frame. */
  receive(payload: Buffer): void {
    this.#received += payload.length
    if (this.#ended.there) throw new ProtocolError('data after the end of a stream')
    if (this.#received - this.#granted > INITIAL_CREDIT) throw new ProtocolError('more data than was granted')
    this.push(payload)
  }

  addCredit(bytes: number): void {
    this.#sendCredit += bytes
    if (this.#sendCredit > MAX_CREDIT) throw new ProtocolError('too much credit')
    this.flush()
  }

  receiveEnd(): void {
    if (this.#ended.there) throw new ProtocolError('a stream ended twice')
    this.#ended.there = true
    this.push(null)
  }

  receiveReset(): void {
    this.#ended = { here: true, there: true }
    this.destroy(Object.assign(new Error('stream reset'), { code: 'ECONNRESET' }))
  }

  /** Sends as much of the pending data as credit and carrier allow. */
  flush(): void {
    for (let chunk = this.#pending[0]; chunk !== undefined; chunk = this.#pending[0]) {
      if (this.#sendCredit === 0) return
      if (this.#carrier.isFull()) {
        this.#carrier.waitForCarrier()
        return
      }
      const length = Math.min(chunk.length, this.#sendCredit, this.#carrier.maxPayload)
      this.#sendCredit -= length
      this.#carrier.sendData(chunk.subarray(0, length))
      if (length === chunk.length) this.#pending.shift()
      else this.#pending[0] = chunk.subarray(length)
    }
    const written = this.#written
    this.#written = undefined
    written?.()
  }

  // Everything that reads goes through here, so what left the buffer is what the reader consumed.
  override read(size?: number): Buffer | null {
    const chunk: Buffer | null = super.read(size)
    const consumed = this.#received - this.readableLength
    if (consumed - this.#granted >= GRANT_BYTES && !this.#ended.there) {
      this.#carrier.sendCredit(consumed - this.#granted)
      this.#granted = consumed
    }
    return chunk
  }

  override _read(): void {
    // Data is pushed as frames arrive.
  }

  override _write(chunk: Buffer, _encoding: BufferEncoding, callback: Callback): void {
    this.#enqueue([chunk], callback)
  }

  override _writev(chunks: { chunk: Buffer }[], callback: Callback): void {
    this.#enqueue(
      chunks.map(c => c.chunk),
      callback,
    )
  }

  override _final(callback: Callback): void {
    this.#ended.here = true
    this.#carrier.sendEnd()
    callback()
  }

  override _destroy(error: Error | null, callback: Callback): void {
    if (!this.#ended.here || !this.#ended.there) this.#carrier.sendReset()
    this.#pending = []
    this.#carrier.gone()
    const written = this.#written
    this.#written = undefined
    written?.(error ?? new Error('stream closed'))
    callback(error)
  }

  #enqueue(chunks: Buffer[], callback: Callback): void {
    this.#pending = chunks.filter(c => c.length > 0)
    this.#written = callback
    this.flush()
  }
}
