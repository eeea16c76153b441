// A mutex per key: work under one key runs one piece after another, in the order of the calls; work under different keys runs at once.

export class KeyedMutex {
  readonly #tails = new Map<string, Promise<void>>()

  async run<T>(key: string, work: () => Promise<T>): Promise<T> {
    const before = this.#tails.get(key)
    const { promise, resolve } = Promise.withResolvers<void>()
    this.#tails.set(key, promise)
    try {
      await before
      return await work()
    } finally {
      resolve()
      if (this.#tails.get(key) === promise) this.#tails.delete(key)
    }
  }
}
