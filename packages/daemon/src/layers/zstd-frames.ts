// Uncompresses zstd of any number of frames. Node's own stream ends with the first one, and layers that can be fetched in parts have thousands.
import { Transform, type TransformCallback } from 'node:stream'
import { createZstdDecompress, type ZstdDecompress } from 'node:zlib'

/**
 * SECURITY: each frame costs the same, however little is in it, and an empty one is nine bytes. Those of a tar have a block of it, or more, on
 * average.
 */
const MIN_FRAME_BYTES = 256
/** Counted over so many of them at a time. */
const ROUND = 5000

export class ZstdFrames extends Transform {
  readonly #chunkSize: number
  #frame: ZstdDecompress | null = null
  /** Of this round. */
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
      else if (rest.length === chunk.length && before === 0) this.destroy(invalid('zstd data that is none'))
      else if (this.#areTooShort()) this.destroy(invalid(`${ROUND} frames of zstd with hardly anything in them`))
      else this.#whenEnded(frame, () => this._transform(rest, encoding, done))
    })
  }

  /** Asked at the end of each frame. */
  #areTooShort(): boolean {
    this.#frames += 1
    if (this.#frames < ROUND) return false
    const areShort = this.#bytes < ROUND * MIN_FRAME_BYTES
    this.#frames = this.#bytes = 0
    return areShort
  }

  /** A frame's last bytes come out before the next one begins. */
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

/** As those that zlib gives. */
const invalid = (message: string) => Object.assign(new Error(message), { code: 'ZSTD_invalid_frames' })
