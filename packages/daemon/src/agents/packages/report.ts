// The progress of one install, for any number of readers. A slow reader skips intermediate states.
import type { InstallProgress } from '@sandglass/contract'

const EVERY_MS = 100

export class InstallReport {
  readonly #listeners = new Set<(progress: InstallProgress) => void>()
  #latest: InstallProgress | undefined
  #changed = Promise.withResolvers<void>()
  #isOver = false

  set(progress: InstallProgress): void {
    this.#latest = progress
    for (const listener of this.#listeners) listener(progress)
    this.#wake()
  }

  end(): void {
    this.#isOver = true
    this.#wake()
  }

  /** Calls the listener with every change from now on. Returns the function that ends that. */
  listen(listener: (progress: InstallProgress) => void): () => void {
    this.#listeners.add(listener)
    if (this.#latest !== undefined) listener(this.#latest)
    return () => void this.#listeners.delete(listener)
  }

  /** Yields the current state, then changes until the end. */
  async *follow(): AsyncGenerator<InstallProgress, void, undefined> {
    let seen: InstallProgress | undefined
    for (;;) {
      const { promise } = this.#changed
      const isOver = this.#isOver
      if (this.#latest !== undefined && this.#latest !== seen) yield this.#latest
      seen = this.#latest
      if (isOver) return
      await promise
      await new Promise(resolve => setTimeout(resolve, this.#isOver ? 0 : EVERY_MS))
    }
  }

  #wake(): void {
    this.#changed.resolve()
    this.#changed = Promise.withResolvers<void>()
  }
}

const MiB = 1024 * 1024
const inMib = (bytes: number) => Math.ceil(bytes / MiB)

/** For people. */
export function progressText({ step, agent, version, bytes, total_bytes }: InstallProgress): string {
  if (step !== 'download') return `unpacking ${agent} ${version}`
  const total = total_bytes === null ? '' : ` of ${inMib(total_bytes)}`
  return `downloading ${agent} ${version}: ${inMib(bytes)}${total} MiB`
}
