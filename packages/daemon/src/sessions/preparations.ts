// What sessions that are being made wait for: an image that is copied, unpacked or loaded. Shown to whoever asks why it takes so long.

export type Preparation = { readonly backend: string; readonly image: string; readonly startedAt: number; step: string }

export class Preparations {
  readonly #underWay = new Set<Preparation>()

  /** Does the work with a way to say how far it is; shown until it is over. */
  async show<T>(about: Omit<Preparation, 'step'>, work: (say: (step: string) => void) => Promise<T>): Promise<T> {
    const preparation = { ...about, step: '' }
    this.#underWay.add(preparation)
    try {
      return await work(step => {
        preparation.step = step
      })
    } finally {
      this.#underWay.delete(preparation)
    }
  }

  /** Those that have said something. */
  list(): { backend: string; image: string; step: string; started_at: string }[] {
    return [...this.#underWay]
      .filter(({ step }) => step !== '')
      .map(({ backend, image, step, startedAt }) => ({ backend, image, step, started_at: new Date(startedAt).toISOString() }))
  }
}
