// How far the layers of an image are, for any number of readers. One that is slow sees the latest of each layer and nothing of what was between.
import type { ImageProgress } from '@sandglass/contract'

const EVERY_MS = 100

export class Progress {
  readonly #latest = new Map<string, ImageProgress & { turn: number }>()
  #turn = 0
  #changed = Promise.withResolvers<void>()
  #isOver = false

  set(layer: ImageProgress): void {
    this.#latest.set(layer.digest, { ...layer, turn: ++this.#turn })
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

  /** What is known, then each change, until the end. */
  async *follow(): AsyncGenerator<ImageProgress, void, undefined> {
    let seen = 0
    for (;;) {
      const { promise } = this.#changed
      const isOver = this.#isOver
      for (const { turn, ...layer } of [...this.#latest.values()]) if (turn > seen) yield layer
      seen = this.#turn
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
