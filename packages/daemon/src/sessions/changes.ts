// Wakes the followers of events. It carries no event: each follower reads from the store, so a slow one costs no memory.

export class Changes {
  readonly #waiting = new Set<() => void>()

  /** Resolves at the next announcement or abort. Call it before reading the store, so that no change between the two is missed. */
  next(signal: AbortSignal): Promise<void> {
    return new Promise(resolve => {
      if (signal.aborted) return resolve()
      const wake = () => {
        this.#waiting.delete(wake)
        signal.removeEventListener('abort', wake)
        resolve()
      }
      this.#waiting.add(wake)
      signal.addEventListener('abort', wake)
    })
  }

  announce(): void {
    for (const wake of [...this.#waiting]) wake()
  }
}
