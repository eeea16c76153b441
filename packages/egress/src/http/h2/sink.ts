// A body in an HTTP/2 stream.
import type { Http2Stream } from 'node:http2'
import type { BodySink } from '../send-body.ts'

export class H2Sink implements BodySink {
  readonly #stream: Http2Stream
  onDrain: (() => void) | null = null
  bytes = 0

  /** Trailers are sent by whoever listens for `wantTrailers` of the stream. */
  constructor(stream: Http2Stream) {
    this.#stream = stream
    stream.on('drain', () => this.onDrain?.())
  }

  write(data: Uint8Array): boolean {
    if (data.length === 0) return true
    this.bytes += data.length
    return this.#stream.write(data)
  }

  end(): void {
    this.#stream.end()
  }
}
