// Wakes those who follow the events. It carries no event: a follower reads on in the store, so that a slow one costs nothing here.

export class Changes {
  readonly #waiting = new Set<() => void>()

  /** Resolves at the next announcement or abort. To be taken before looking, so that nothing falls between. */
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
