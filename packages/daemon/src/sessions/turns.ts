// Verbs that change a session take turns; those of different sessions never wait for each other.

export class Turns {
  readonly #tails = new Map<string, Promise<void>>()

  async take<T>(id: string, work: () => Promise<T>): Promise<T> {
    const before = this.#tails.get(id)
    const { promise, resolve } = Promise.withResolvers<void>()
    this.#tails.set(id, promise)
    try {
      await before
      return await work()
    } finally {
      resolve()
      if (this.#tails.get(id) === promise) this.#tails.delete(id)
    }
  }
}
