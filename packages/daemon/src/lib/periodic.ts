// Runs work periodically. Each run returns the milliseconds until the next one, and `wakeIn` brings the next one forward.

export type PeriodicOptions = {
  work: () => Promise<number>
  /** Returns the milliseconds until the next run after one that failed. */
  onError: (error: unknown) => number
  /** The longest time between the end of a run and the next one. */
  maxMs: number
}

export class Periodic {
  readonly #options: PeriodicOptions
  readonly #runs = new Set<Promise<void>>()
  #timer: NodeJS.Timeout | undefined
  #dueAt = Number.POSITIVE_INFINITY
  #isStarted = false

  constructor(options: PeriodicOptions) {
    this.#options = options
  }

  start(firstMs = this.#options.maxMs): void {
    this.#isStarted = true
    this.wakeIn(firstMs)
  }

  /** The next run begins in `ms` at the latest, even if another is still under way then. No effect before start and after stop. */
  wakeIn(ms: number): void {
    const dueAt = performance.now() + Math.min(Math.max(ms, 0), this.#options.maxMs)
    if (!this.#isStarted || dueAt >= this.#dueAt) return
    clearTimeout(this.#timer)
    this.#dueAt = dueAt
    this.#timer = setTimeout(() => this.#begin(), dueAt - performance.now())
  }

  /** Resolves when every run under way is over. */
  async stop(): Promise<void> {
    this.#isStarted = false
    clearTimeout(this.#timer)
    await Promise.all(this.#runs)
  }

  #begin(): void {
    this.#dueAt = Number.POSITIVE_INFINITY
    const run = this.#run().finally(() => this.#runs.delete(run))
    this.#runs.add(run)
  }

  async #run(): Promise<void> {
    const { work, onError } = this.#options
    this.wakeIn(await work().catch(onError))
  }
}
