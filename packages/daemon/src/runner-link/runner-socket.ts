// A socket to a runner. A file's body passes through few large buffers instead of leaving 64 KiB of garbage with every read.
import { once } from 'node:events'
import { Socket } from 'node:net'

/** Enough for the usual reply. Less than this is copied out of its buffer, so that nobody keeps a large one for a few bytes. */
const SMALL_BYTES = 16 * 1024
/** What a socket's queue holds by default, and a little more. */
const LARGE_BYTES = 256 * 1024
/** One is being read into while the others are on their way to the client. */
const MAX_FREE = 4

export class RunnerSocket extends Socket {
  readonly #free: Buffer[] = []
  /** Where the chunk ends that was read into a buffer. */
  readonly #ends = new WeakMap<ArrayBufferLike, number>()
  #readBytes = SMALL_BYTES

  /** SECURITY: follows links, so only for a path of which nothing is a sandbox's to change. */
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
   * Gives back a chunk that nobody reads any more. Of chunks that were cut from one read the last one frees the buffer, so they
   * are given back in order. A chunk that is never given back is garbage like any other.
   */
  recycle({ buffer, byteOffset, length }: Uint8Array): void {
    if (this.#ends.get(buffer) !== byteOffset + length) return
    this.#ends.delete(buffer)
    this.#keep(buffer)
  }

  /** False makes the socket rest until somebody reads. */
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
