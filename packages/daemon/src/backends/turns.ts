// Work on one machine happens one piece after another; work on different machines at once.

export class Turns {
  readonly #last = new Map<string, Promise<void>>()

  async take<T>(id: string, work: () => Promise<T>): Promise<T> {
    const before = this.#last.get(id)
    const { promise, resolve } = Promise.withResolvers<void>()
    this.#last.set(id, promise)
    await before
    try {
      return await work()
    } finally {
      resolve()
      if (this.#last.get(id) === promise) this.#last.delete(id)
    }
  }
}
