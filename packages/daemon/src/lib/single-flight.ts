// Single flight: callers that ask for the same work at the same time share one run of it. The work is aborted when the last caller leaves.

/** One run of the work, shared by its callers. `progress` describes how far it is, for any number of readers. */
export class Flight<T, P extends { end(): void }> {
  readonly progress: P
  readonly #abort = new AbortController()
  readonly #done: Promise<T>
  #callers = 0

  constructor(progress: P, work: (progress: P, signal: AbortSignal) => Promise<T>) {
    this.progress = progress
    this.#done = work(progress, this.#abort.signal).finally(() => progress.end())
    this.#done.catch(() => undefined) // every caller that joined gets the error
  }

  get isAborted(): boolean {
    return this.#abort.signal.aborted
  }

  /** Resolves when the work has stopped, whatever its outcome. */
  async settled(): Promise<void> {
    await this.#done.catch(() => undefined)
  }

  /** Settles with the work, or rejects when the caller's own signal aborts. */
  async join(signal: AbortSignal): Promise<T> {
    this.#callers++
    const { promise, reject } = Promise.withResolvers<never>()
    const leave = () => reject(signal.reason)
    signal.addEventListener('abort', leave)
    try {
      signal.throwIfAborted()
      return await Promise.race([this.#done, promise])
    } finally {
      signal.removeEventListener('abort', leave)
      if (--this.#callers === 0) this.#abort.abort(new Error('all callers have left'))
    }
  }
}

/** The flights under way, by key. */
export class SingleFlight<T, P extends { end(): void }> {
  readonly #flights = new Map<string, Flight<T, P>>()

  get(key: string): Flight<T, P> | undefined {
    return this.#flights.get(key)
  }

  get size(): number {
    return this.#flights.size
  }

  values(): Iterable<Flight<T, P>> {
    return this.#flights.values()
  }

  /**
   * The flight under `key`, or a new one. A new one waits until an aborted one before it has stopped: both may work on the same files.
   * `work` is always called, so that it can clean up; its signal is aborted by then if the callers have left.
   */
  start(key: string, progress: () => P, work: (progress: P, signal: AbortSignal) => Promise<T>): Flight<T, P> {
    const before = this.#flights.get(key)
    if (before && !before.isAborted) return before
    const flight: Flight<T, P> = new Flight(progress(), async (shared, signal) => {
      try {
        if (before) await before.settled()
        return await work(shared, signal)
      } finally {
        if (this.#flights.get(key) === flight) this.#flights.delete(key)
      }
    })
    this.#flights.set(key, flight)
    return flight
  }
}
