// Work that is done once for everybody who asks for the same while it goes on. It is given up when the last of them is gone.

export class JoinedWork<T, P extends { end(): void }> {
  /** How far it is, for any number of readers. */
  readonly progress: P
  readonly #abort = new AbortController()
  readonly #done: Promise<T>
  #waiting = 0

  constructor(progress: P, work: (progress: P, signal: AbortSignal) => Promise<T>) {
    this.progress = progress
    this.#done = work(progress, this.#abort.signal).finally(() => progress.end())
    this.#done.catch(() => undefined) // everybody who joined hears of it
  }

  get isGivenUp(): boolean {
    return this.#abort.signal.aborted
  }

  /** Resolves when nothing of it goes on any more, however it ended. */
  async over(): Promise<void> {
    await this.#done.catch(() => undefined)
  }

  /** Settles with the work, or with the caller's own signal. */
  async join(signal: AbortSignal): Promise<T> {
    this.#waiting++
    const { promise, reject } = Promise.withResolvers<never>()
    const leave = () => reject(signal.reason)
    signal.addEventListener('abort', leave)
    try {
      signal.throwIfAborted()
      return await Promise.race([this.#done, promise])
    } finally {
      signal.removeEventListener('abort', leave)
      if (--this.#waiting === 0) this.#abort.abort(new Error('nobody waits for it any more'))
    }
  }
}
