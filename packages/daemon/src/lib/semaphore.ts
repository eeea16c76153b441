// A weighted semaphore: callers take units and wait, first in, first out, while too few are free.

export class Semaphore {
  readonly #total: number
  #free: number
  readonly #waiting: { units: number; begin: () => void }[] = []

  constructor(total: number) {
    this.#total = total
    this.#free = total
  }

  get taken(): number {
    return this.#total - this.#free
  }

  get isFull(): boolean {
    return this.#free <= 0 || this.#waiting.length > 0
  }

  /** Resolves with the function that releases the units; calling it twice is the same as once. More than the total counts as the total. */
  async acquire(signal?: AbortSignal, units = 1): Promise<() => void> {
    signal?.throwIfAborted()
    const wanted = Math.min(units, this.#total)
    if (this.#waiting.length > 0 || wanted > this.#free) await this.#wait(wanted, signal)
    else this.#free -= wanted
    let isReleased = false
    return () => {
      if (isReleased) return
      isReleased = true
      this.#free += wanted
      this.#admit()
    }
  }

  async run<T>(work: () => Promise<T>): Promise<T> {
    const release = await this.acquire()
    try {
      return await work()
    } finally {
      release()
    }
  }

  #admit(): void {
    for (let next = this.#waiting[0]; next && next.units <= this.#free; next = this.#waiting[0]) {
      this.#waiting.shift()
      this.#free -= next.units
      next.begin()
    }
  }

  async #wait(units: number, signal: AbortSignal | undefined): Promise<void> {
    const { promise, resolve, reject } = Promise.withResolvers<void>()
    const waiting = { units, begin: resolve }
    const leave = () => {
      const index = this.#waiting.indexOf(waiting)
      if (index < 0) return // it has its units: the abort came too late
      this.#waiting.splice(index, 1)
      this.#admit()
      reject(signal?.reason)
    }
    this.#waiting.push(waiting)
    signal?.addEventListener('abort', leave)
    await promise.finally(() => signal?.removeEventListener('abort', leave))
  }
}
