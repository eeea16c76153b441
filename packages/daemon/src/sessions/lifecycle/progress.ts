// What sessions that are being made wait for: an image that is copied, unpacked or loaded. Shown to whoever asks why it takes so long.
import { SingleFlight } from '../../lib/single-flight.ts'

export type Preparation = { readonly backend: string; readonly image: string; readonly startedAt: number }
type Shown = Preparation & { step: string; end(): void }
type Work = (signal: AbortSignal, say: (step: string) => void) => Promise<void>

export class Preparations {
  readonly #flights = new SingleFlight<void, Shown>()

  /** Those who need the same, told by its key, wait for one piece of work. It is given up when the last of them is gone. */
  async join(key: string, about: Preparation, work: Work, signal: AbortSignal): Promise<void> {
    signal.throwIfAborted()
    const flight = this.#flights.start(
      key,
      () => ({ ...about, step: '', end: () => undefined }),
      async (progress, stop) => {
        stop.throwIfAborted()
        await work(stop, step => {
          progress.step = step
        })
      },
    )
    await flight.join(signal)
  }

  /** Those that have said something. */
  list(): { backend: string; image: string; step: string; started_at: string }[] {
    return [...this.#flights.values()]
      .map(({ progress }) => progress)
      .filter(({ step }) => step !== '')
      .map(({ backend, image, step, startedAt }) => ({ backend, image, step, started_at: new Date(startedAt).toISOString() }))
  }
}
