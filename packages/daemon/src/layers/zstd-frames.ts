// Uncompresses zstd of any number of frames. Node's own stream ends with the first one, and layers that can be fetched in parts have thousands.
import { Transform, type TransformCallback } from 'node:stream'
import { createZstdDecompress, type ZstdDecompress } from 'node:zlib'

export class ZstdFrames extends Transform {
  readonly #chunkSize: number
  #frame: ZstdDecompress | null = null

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
      else if (rest.length === chunk.length && before === 0) this.destroy(new Error('zstd data that is none'))
      else this.#whenEnded(frame, () => this._transform(rest, encoding, done))
    })
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
      if (!this.push(piece)) frame.pause()
    })
    frame.once('error', error => this.destroy(error))
    this.#frame = frame
    return frame
  }
}
