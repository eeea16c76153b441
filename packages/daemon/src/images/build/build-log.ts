// The events of a build, for all callers that wait for it. A late reader gets them from the start; a slow reader loses the oldest.
import type { BuildStep, ImageProgress } from '@sandglass/contract'

export type BuildEvent =
  | { readonly event: 'step'; readonly data: BuildStep }
  | { readonly event: 'output'; readonly data: { readonly text: string } }
  | { readonly event: 'progress'; readonly data: ImageProgress }

const MAX_BYTES = 1024 * 1024

export class BuildLog {
  readonly #events: BuildEvent[] = []
  /** Sequence number of the oldest kept event. */
  #first = 0
  #bytes = 0
  #isOver = false
  #changed = Promise.withResolvers<void>()

  add(event: BuildEvent): void {
    this.#events.push(event)
    this.#bytes += sizeOf(event)
    while (this.#bytes > MAX_BYTES && this.#events.length > 1) {
      const oldest = this.#events.shift()
      if (oldest) this.#bytes -= sizeOf(oldest)
      this.#first++
    }
    this.#wake()
  }

  end(): void {
    this.#isOver = true
    this.#wake()
  }

  /** Ends with the build; throws when the signal aborts. */
  async *follow(signal: AbortSignal): AsyncGenerator<BuildEvent, void, undefined> {
    const { promise: aborted, reject } = Promise.withResolvers<never>()
    aborted.catch(() => undefined) // awaited below, unless the reader has stopped
    const leave = () => reject(signal.reason)
    signal.addEventListener('abort', leave)
    try {
      for (let at = 0; ; ) {
        signal.throwIfAborted()
        if (at < this.#first) {
          yield { event: 'output', data: { text: `… ${this.#first - at} messages omitted\n` } }
          at = this.#first
        }
        const event = this.#events[at - this.#first]
        if (event) {
          at++
          yield event
        } else if (this.#isOver) return
        else await Promise.race([this.#changed.promise, aborted])
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
