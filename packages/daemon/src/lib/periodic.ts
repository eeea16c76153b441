// Runs work periodically. Each run returns the milliseconds until the next one, and `wakeIn` brings the next one forward.

export type PeriodicOptions = {
  work: () => Promise<number>
  /** Reports the error and returns the milliseconds until the next run. If it throws, the next run is a second later. */
  onError: (error: unknown) => number
  /** The longest time between the end of a run and the next one. */
  maxMs: number
}

const AFTER_FAILED_REPORT_MS = 1000

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
    this.#timer = setTimeout(() => this.#begin(), Math.max(0, dueAt - performance.now()))
  }

  /** Resolves when every run under way is over. */
  async stop(): Promise<void> {
    this.#isStarted = false
    clearTimeout(this.#timer)
    this.#dueAt = Number.POSITIVE_INFINITY
    await Promise.all(this.#runs)
  }

  #begin(): void {
    this.#dueAt = Number.POSITIVE_INFINITY
    const run = this.#run().finally(() => this.#runs.delete(run))
    this.#runs.add(run)
  }

  async #run(): Promise<void> {
    this.wakeIn(await this.#options.work().catch(error => this.#report(error)))
  }

  #report(error: unknown): number {
    try {
      return this.#options.onError(error)
    } catch {
      // Nobody is left to report to. The runs go on.
      return AFTER_FAILED_REPORT_MS
    }
  }
}
