import { LIMITS } from '@sandglass/contract/tables'

/** The first and the last half of what is added, as exec's reply has it. */
export class Collected {
  readonly #half: number
  #head: Buffer[] = []
  #tail: Buffer[] = []
  #headBytes = 0
  #tailBytes = 0
  #isCut = false

  constructor(maxBytes: number = LIMITS.exec_output_bytes.default) {
    this.#half = Math.floor(maxBytes / 2)
  }

  get isTruncated(): boolean {
    return this.#isCut
  }

  add(data: Uint8Array): void {
    const room = Math.min(data.length, this.#half - this.#headBytes)
    if (room > 0) {
      this.#head.push(Buffer.from(data.subarray(0, room)))
      this.#headBytes += room
    }
    if (room >= data.length) return
    this.#tail.push(Buffer.from(data.subarray(Math.max(0, room))))
    this.#tailBytes += data.length - Math.max(0, room)
    if (this.#tailBytes > 2 * this.#half) this.#cut()
  }

  text(): string {
    if (this.#tailBytes > this.#half) this.#cut()
    return Buffer.concat([...this.#head, ...this.#tail]).toString('utf8')
  }

  /** Twice as much as is needed is let in before the rest is dropped, so that many small pieces do not copy it each time. */
  #cut(): void {
    const kept = Buffer.concat(this.#tail).subarray(-this.#half)
    this.#tail = [kept]
    this.#tailBytes = kept.length
    this.#isCut = true
  }
}
