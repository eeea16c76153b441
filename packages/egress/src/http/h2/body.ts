// The body of an HTTP/2 message that arrives.
import type { Http2Stream } from 'node:http2'
import { Readable } from 'node:stream'

export interface H2BodyEvents {
  /** Somebody wants the first byte. */
  onStarted(): void
  /** Nobody wants the rest. */
  onAbandoned(): void
  /** What readers are told when the rest does not come. */
  cutOff(): Error
}

/**
 * A stream of node:http2 ends in the same way whether its body is complete or the peer or the connection went away; only its code tells.
 * This one fails in the second case.
 */
export class H2Body extends Readable {
  readonly #stream: Http2Stream
  readonly #events: H2BodyEvents
  #isStarted = false
  #isComplete = false
  bytes = 0

  constructor(stream: Http2Stream, events: H2BodyEvents) {
    super()
    this.#stream = stream
    this.#events = events
    // A body that fails before anybody reads it must not end the process.
    this.on('error', () => undefined)
    stream.once('close', () => this.#isComplete || this.destroy(events.cutOff()))
  }

  override _read(): void {
    if (this.#isStarted) {
      this.#stream.resume()
      return
    }
    this.#isStarted = true
    this.#events.onStarted()
    this.#stream.on('data', this.#onData).once('end', this.#onEnd)
  }

  override _destroy(error: Error | null, done: (error?: Error | null) => void): void {
    this.#stream.off('data', this.#onData).off('end', this.#onEnd)
    if (!this.#isComplete) this.#events.onAbandoned()
    done(error)
  }

  #onData = (data: Buffer): void => {
    this.bytes += data.length
    if (!this.push(data)) this.#stream.pause()
  }

  #onEnd = (): void => {
    if (this.#stream.rstCode !== 0) {
      this.destroy(this.#events.cutOff())
      return
    }
    this.#isComplete = true
    this.push(null)
  }
}
