// What must stay while something under way needs it, counted: ids of images, digests of blobs and of layers.

export class Holds {
  readonly #counts = new Map<string, number>()

  /** Gives what lets go of them again. */
  hold(keys: Iterable<string>): () => void {
    const held = [...keys]
    for (const key of held) this.#counts.set(key, (this.#counts.get(key) ?? 0) + 1)
    return () => {
      for (const key of held.splice(0)) {
        const left = (this.#counts.get(key) ?? 1) - 1
        if (left > 0) this.#counts.set(key, left)
        else this.#counts.delete(key)
      }
    }
  }

  has(key: string): boolean {
    return this.#counts.has(key)
  }

  keys(): Iterable<string> {
    return this.#counts.keys()
  }
}
