const SHOW_AFTER_MS = 1000
const EVERY_MS = 200

/** A count of bytes on stderr, for a copy that takes longer than a second and a person who watches. */
export class Progress implements Disposable {
  bytes = 0
  readonly #isShown: boolean
  readonly #started = performance.now()
  #lastShown = 0

  constructor(options: { isQuiet: boolean }) {
    this.#isShown = process.stderr.isTTY === true && !options.isQuiet
  }

  add(count: number): void {
    this.bytes += count
    const now = performance.now()
    if (!this.#isShown || now - this.#started < SHOW_AFTER_MS || now - this.#lastShown < EVERY_MS) return
    this.#lastShown = now
    process.stderr.write(`\r\x1b[K${megabytes(this.bytes)}, ${megabytes((this.bytes * 1000) / (now - this.#started))}/s`)
  }

  /** The same bytes, counted. */
  async *through(source: AsyncIterable<Uint8Array>): AsyncGenerator<Uint8Array, void, undefined> {
    for await (const piece of source) {
      this.add(piece.length)
      yield piece
    }
  }

  [Symbol.dispose](): void {
    if (this.#lastShown > 0) process.stderr.write('\r\x1b[K')
  }
}

const megabytes = (bytes: number) => `${(bytes / 1_048_576).toFixed(1)} MiB`
