// Decompresses zstd data of many frames. Node's own stream ends after the first frame, and layers in the seekable format have thousands.
import { Transform, type TransformCallback } from 'node:stream'
import { createZstdDecompress, type ZstdDecompress } from 'node:zlib'

/**
 * SECURITY: each frame has a fixed cost, and an empty frame takes nine bytes. Frames of a real tar hold a block or more on average, so a lower
 * average is refused.
 */
const MIN_FRAME_BYTES = 256
/** Frames over which the average is taken. */
const ROUND = 5000

export class ZstdFrames extends Transform {
  readonly #chunkSize: number
  #frame: ZstdDecompress | null = null
  /** Frames and bytes in the current round. */
  #frames = 0
  #bytes = 0

  constructor(chunkSize: number) {
    super({ readableHighWaterMark: chunkSize })
    this.#chunkSize = chunkSize
  }

  override _transform(chunk: Buffer, encoding: BufferEncoding, done: TransformCallback): void {
    const frame = this.#frame ?? this.#open()
    const before = frame.bytesWritten
    frame.write(chunk, error => {
      if (error) return
      const rest = chunk.subarray(frame.bytesWritten - before)
      if (rest.length === 0) done()
      else if (rest.length === chunk.length && before === 0) this.destroy(invalid('invalid zstd data'))
      else if (this.#areTooShort()) this.destroy(invalid(`${ROUND} zstd frames with almost no content`))
      else this.#whenEnded(frame, () => this._transform(rest, encoding, done))
    })
  }

  /** Called at the end of each frame. */
  #areTooShort(): boolean {
    this.#frames += 1
    if (this.#frames < ROUND) return false
    const areShort = this.#bytes < ROUND * MIN_FRAME_BYTES
    this.#frames = this.#bytes = 0
    return areShort
  }

  /** Waits for the last bytes of a frame before the next frame begins. */
  #whenEnded(frame: ZstdDecompress, then: () => void): void {
    const next = () => {
      this.#frame = null
      then()
    }
    if (frame.readableEnded) next()
    else frame.once('end', next)
  }

  override _flush(done: TransformCallback): void {
    const frame = this.#frame
    if (!frame) return void done()
    frame.once('end', () => done())
    frame.end()
  }

  override _read(size: number): void {
    this.#frame?.resume()
    super._read(size)
  }

  override _destroy(error: Error | null, done: (error?: Error | null) => void): void {
    this.#frame?.destroy()
    done(error)
  }

  #open(): ZstdDecompress {
    const frame = createZstdDecompress({ chunkSize: this.#chunkSize })
    frame.on('data', piece => {
      this.#bytes += piece.length
      if (!this.push(piece)) frame.pause()
    })
    frame.once('error', error => this.destroy(error))
    this.#frame = frame
    return frame
  }
}

/** With a code like those of zlib's errors. */
const invalid = (message: string) => Object.assign(new Error(message), { code: 'ZSTD_invalid_frames' })
