// Local files as request bodies, read in large pieces.
import type { FileHandle } from 'node:fs/promises'
import type { Writable } from 'node:stream'
import { SandglassError } from '@sandglass/contract/tables'
import { withResolvers } from '../transport/with-resolvers.ts'

/** Not imported: see fetch.ts. */
const files = () => process.getBuiltinModule('node:fs/promises')

const PIECE = 512 * 1024
/** One is filled while the others are being sent. */
const BUFFERS = 3

/** A body with a known length, so that it is sent without chunked encoding. */
export class FileBody implements AsyncIterable<Uint8Array<ArrayBuffer>> {
  readonly size: number
  readonly #path: string
  readonly #onSent: (bytes: number) => void

  constructor(path: string, size: number, onSent: (bytes: number) => void) {
    this.#path = path
    this.size = size
    this.#onSent = onSent
  }

  async *[Symbol.asyncIterator](): AsyncGenerator<Uint8Array<ArrayBuffer>, void, undefined> {
    const file = await this.#open()
    try {
      for (let at = 0; at < this.size; ) {
        const piece = await this.#read(file, Buffer.allocUnsafeSlow(PIECE), at)
        at += piece.length
        yield piece
        this.#onSent(piece.length)
      }
    } finally {
      await file.close()
    }
  }

  /** Writes the whole file, with few reused buffers. */
  async sendTo(to: Writable): Promise<void> {
    const file = await this.#open()
    try {
      await this.#send(file, to)
    } finally {
      await file.close()
    }
  }

  async #send(file: FileHandle, to: Writable): Promise<void> {
    const gone = withResolvers<never>()
    gone.promise.catch(() => undefined) // only awaited while something is unsent
    to.once('close', () => gone.reject(new Error('the connection was lost')))
    const turns = Array.from({ length: BUFFERS }, () => ({ buffer: Buffer.allocUnsafeSlow(PIECE), sent: Promise.resolve() }))
    for (let at = 0; at < this.size; ) {
      for (const turn of turns) {
        await Promise.race([turn.sent, gone.promise])
        const piece = await this.#read(file, turn.buffer, at)
        at += piece.length
        turn.sent = new Promise(resolve => to.write(piece, () => resolve()))
        this.#onSent(piece.length)
        if (at === this.size) break
      }
    }
    // The buffers are in use until everything is sent.
    await Promise.race([Promise.all(turns.map(({ sent }) => sent)), gone.promise])
  }

  async #open(): Promise<FileHandle> {
    return await files()
      .open(this.#path)
      .catch(error => this.#fail(error.message, error))
  }

  async #read(file: FileHandle, buffer: Buffer<ArrayBuffer>, at: number): Promise<Buffer<ArrayBuffer>> {
    const { bytesRead } = await file
      .read(buffer, 0, Math.min(PIECE, this.size - at), at)
      .catch(error => this.#fail(error.message, error))
    if (bytesRead === 0) this.#fail(`it became shorter meanwhile, ${at} bytes of ${this.size}`)
    return buffer.subarray(0, bytesRead)
  }

  /** A failure to read the file must not look like an unreachable daemon. */
  #fail(why: string, cause?: unknown): never {
    throw new SandglassError('SOURCE_FAILED', { path: this.#path, why }, { cause })
  }
}

/** A local file as a body to upload, with its present length. */
export async function fileBody(path: string, onSent: (bytes: number) => void = () => undefined): Promise<FileBody> {
  return new FileBody(path, (await files().stat(path)).size, onSent)
}
