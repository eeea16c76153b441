// When to look for ended leases next: at the earliest end that is known, and every 30 seconds in any case.

const TICK_MS = 30_000

export class Reaper {
  readonly #now: () => number
  #sweep: (() => Promise<number | null>) | undefined
  #timer: NodeJS.Timeout | undefined
  #at = Number.POSITIVE_INFINITY
  #sweeping: Promise<void> = Promise.resolve()

  constructor(now: () => number) {
    this.#now = now
  }

  /** `sweep` does the work and answers with the next end; it handles its own errors. */
  start(sweep: () => Promise<number | null>): void {
    this.#sweep = sweep
    this.#arm(this.#now() + TICK_MS)
  }

  /** A lease ends at `at`, which may be earlier than what is waited for. */
  nudge(at: number | null): void {
    if (at !== null && at < this.#at) this.#arm(at)
  }

  /** Resolves when a sweep under way is over. */
  async stop(): Promise<void> {
    this.#sweep = undefined
    clearTimeout(this.#timer)
    await this.#sweeping
  }

  #arm(at: number): void {
    if (!this.#sweep) return
    clearTimeout(this.#timer)
    this.#at = at
    const wait = Math.min(Math.max(at - this.#now(), 1), TICK_MS)
    this.#timer = setTimeout(() => {
      this.#sweeping = this.#run()
    }, wait)
  }

  async #run(): Promise<void> {
    // What is nudged while the sweep runs is not lost: it arms a timer of its own, and the end below only moves it forward.
    this.#at = Number.POSITIVE_INFINITY
    const next = (await this.#sweep?.()) ?? Number.POSITIVE_INFINITY
    const at = Math.min(next, this.#now() + TICK_MS)
    if (at < this.#at) this.#arm(at)
  }
}
