// A socket to a runner that reuses few large read buffers: by default every read of a file body would allocate 64 KiB.
import { once } from 'node:events'
import { Socket } from 'node:net'

/** Enough for most replies. Smaller chunks are copied, so that a few bytes do not keep a large buffer in use. */
const SMALL_BYTES = 16 * 1024
/** A little more than the default buffer of a unix socket. */
const LARGE_BYTES = 256 * 1024
/** One is filled while the others are being sent to the client. */
const MAX_FREE = 4

export class RunnerSocket extends Socket {
  readonly #free: Buffer[] = []
  /** End of the chunk in each buffer that is in use. */
  readonly #ends = new WeakMap<ArrayBufferLike, number>()
  #readBytes = SMALL_BYTES

  /** SECURITY: follows symbolic links, so no part of the path may be writable by a sandbox. */
  static async dial(path: string): Promise<RunnerSocket> {
    const socket = new RunnerSocket().connect({ path })
    await once(socket, 'connect')
    return socket
  }

  constructor() {
    const buffer = () => this.#free.pop() ?? Buffer.allocUnsafeSlow(this.#readBytes)
    const callback = (length: number, into: Uint8Array) => this.#take(into, length)
    super({ onread: { buffer, callback } })
  }

  /**
   * Returns the buffer of a chunk for reuse. When several chunks were cut from one read, the last one frees the buffer, so chunks are
   * returned in order. A chunk that is not returned is garbage collected.
   */
  recycle({ buffer, byteOffset, length }: Uint8Array): void {
    if (this.#ends.get(buffer) !== byteOffset + length) return
    this.#ends.delete(buffer)
    this.#keep(buffer)
  }

  /** False pauses the socket until the next read. */
  #take({ buffer }: Uint8Array, length: number): boolean {
    const chunk = Buffer.from(buffer, 0, length)
    if (length === buffer.byteLength) this.#readBytes = LARGE_BYTES
    if (length < SMALL_BYTES) {
      this.#keep(buffer)
      return this.push(Buffer.from(chunk))
    }
    this.#ends.set(buffer, length)
    return this.push(chunk)
  }

  #keep(buffer: ArrayBufferLike): void {
    if (buffer.byteLength === this.#readBytes && this.#free.length < MAX_FREE) this.#free.push(Buffer.from(buffer))
  }
}
