// What sessions that are being made wait for: an image that is copied, unpacked or loaded. Shown to whoever asks why it takes so long.
import { JoinedWork } from '../joined-work.ts'

export type Preparation = { readonly backend: string; readonly image: string; readonly startedAt: number }
type Shown = Preparation & { step: string; end(): void }
type Work = (signal: AbortSignal, say: (step: string) => void) => Promise<void>

export class Preparations {
  readonly #underWay = new Map<string, JoinedWork<void, Shown>>()

  /** Those who need the same, told by its key, wait for one piece of work. It is given up when the last of them is gone. */
  async join(key: string, about: Preparation, work: Work, signal: AbortSignal): Promise<void> {
    signal.throwIfAborted()
    const found = this.#underWay.get(key)
    const shared = found && !found.isGivenUp ? found : this.#begin(key, about, work, found)
    await shared.join(signal)
  }

  /** Those that have said something. */
  list(): { backend: string; image: string; step: string; started_at: string }[] {
    return [...this.#underWay.values()]
      .map(({ progress }) => progress)
      .filter(({ step }) => step !== '')
      .map(({ backend, image, step, startedAt }) => ({ backend, image, step, started_at: new Date(startedAt).toISOString() }))
  }

  /** What was given up may still be clearing away its files, which have the same names. */
  #begin(key: string, about: Preparation, work: Work, before: JoinedWork<void, Shown> | undefined): JoinedWork<void, Shown> {
    const shown: Shown = { ...about, step: '', end: () => undefined }
    const shared = new JoinedWork(shown, async (progress, signal) => {
      try {
        await before?.over()
        signal.throwIfAborted()
        await work(signal, step => {
          progress.step = step
        })
      } finally {
        if (this.#underWay.get(key) === shared) this.#underWay.delete(key)
      }
    })
    this.#underWay.set(key, shared)
    return shared
  }
}
