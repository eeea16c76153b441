// The progress of an image's layers, for any number of readers. A slow reader skips intermediate states.
import type { ImageProgress } from '@sandglass/contract'

const EVERY_MS = 100

export class Progress {
  readonly #latest = new Map<string, ImageProgress & { version: number }>()
  #version = 0
  #changed = Promise.withResolvers<void>()
  #isOver = false

  set(layer: ImageProgress): void {
    this.#latest.set(layer.digest, { ...layer, version: ++this.#version })
    this.#wake()
  }

  add(digest: string, bytes: number): void {
    const layer = this.#latest.get(digest)
    if (layer) this.set({ ...layer, done_bytes: Math.min(layer.total_bytes, layer.done_bytes + bytes) })
  }

  end(): void {
    this.#isOver = true
    this.#wake()
  }

  /** Yields the current state of each layer, then every change until the end. */
  async *follow(): AsyncGenerator<ImageProgress, void, undefined> {
    let seen = 0
    for (;;) {
      const { promise } = this.#changed
      const isOver = this.#isOver
      for (const { version, ...layer } of [...this.#latest.values()]) if (version > seen) yield layer
      seen = this.#version
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
