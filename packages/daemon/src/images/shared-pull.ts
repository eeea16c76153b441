// One pull, for everybody who asked for the same image while it went on. It is given up when the last of them is gone.
import type { Image } from '@sandglass/contract'
import { Progress } from './progress.ts'

export class SharedPull {
  readonly progress = new Progress()
  readonly #abort = new AbortController()
  readonly #done: Promise<Image>
  #waiting = 0

  constructor(work: (progress: Progress, signal: AbortSignal) => Promise<Image>) {
    this.#done = work(this.progress, this.#abort.signal).finally(() => this.progress.end())
    this.#done.catch(() => undefined) // everybody who joined hears of it
  }

  get isGivenUp(): boolean {
    return this.#abort.signal.aborted
  }

  /** Settles with the pull, or with the caller's own signal. */
  async join(signal: AbortSignal): Promise<Image> {
    signal.throwIfAborted()
    this.#waiting++
    const { promise, reject } = Promise.withResolvers<never>()
    const leave = () => reject(signal.reason)
    signal.addEventListener('abort', leave)
    try {
      return await Promise.race([this.#done, promise])
    } finally {
      signal.removeEventListener('abort', leave)
      if (--this.#waiting === 0) this.#abort.abort(new Error('nobody waits for the pull any more'))
    }
  }
}
