// What a build says, for everybody who waits for it: who comes late hears it from the beginning, and who is slow loses the middle.
import type { BuildStep, ImageProgress } from '@sandglass/contract'

export type BuildEvent =
  | { readonly event: 'step'; readonly data: BuildStep }
  | { readonly event: 'output'; readonly data: { readonly text: string } }
  | { readonly event: 'progress'; readonly data: ImageProgress }

const KEPT_BYTES = 1024 * 1024

export class BuildLog {
  readonly #events: BuildEvent[] = []
  /** Number of the first event that is still there. */
  #first = 0
  #bytes = 0
  #isOver = false
  #changed = Promise.withResolvers<void>()

  add(event: BuildEvent): void {
    this.#events.push(event)
    this.#bytes += sizeOf(event)
    while (this.#bytes > KEPT_BYTES && this.#events.length > 1) {
      const gone = this.#events.shift()
      if (gone) this.#bytes -= sizeOf(gone)
      this.#first++
    }
    this.#wake()
  }

  end(): void {
    this.#isOver = true
    this.#wake()
  }

  /** Ends with the build, and fails with the signal. */
  async *follow(signal: AbortSignal): AsyncGenerator<BuildEvent, void, undefined> {
    const { promise: gone, reject } = Promise.withResolvers<never>()
    gone.catch(() => undefined) // it is waited for below, or nobody listens any more
    const leave = () => reject(signal.reason)
    signal.addEventListener('abort', leave)
    try {
      for (let at = 0; ; ) {
        signal.throwIfAborted()
        if (at < this.#first) {
          yield { event: 'output', data: { text: `… ${this.#first - at} messages are left out\n` } }
          at = this.#first
        }
        const event = this.#events[at - this.#first]
        if (event) {
          at++
          yield event
        } else if (this.#isOver) return
        else await Promise.race([this.#changed.promise, gone])
      }
    } finally {
      signal.removeEventListener('abort', leave)
    }
  }

  #wake(): void {
    this.#changed.resolve()
    this.#changed = Promise.withResolvers<void>()
  }
}

const sizeOf = (event: BuildEvent) => 128 + (event.event === 'output' ? event.data.text.length : 0)
