// Keeps the beginning and the end of long output, for `--json`.
import { LIMITS } from '@sandglass/contract/tables'

/** Keeps the first and the last half of the output and drops the middle, as the API's exec does. */
export class BoundedOutput {
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
    const headPart = Math.max(0, Math.min(data.length, this.#half - this.#headBytes))
    if (headPart > 0) {
      this.#head.push(Buffer.from(data.subarray(0, headPart)))
      this.#headBytes += headPart
    }
    if (headPart === data.length) return
    this.#tail.push(Buffer.from(data.subarray(headPart)))
    this.#tailBytes += data.length - headPart
    if (this.#tailBytes > 2 * this.#half) this.#cut()
  }

  text(): string {
    if (this.#tailBytes > this.#half) this.#cut()
    return Buffer.concat([...this.#head, ...this.#tail]).toString('utf8')
  }

  /** The tail may grow to twice its limit before it is cut, so that not every small piece copies it. */
  #cut(): void {
    const kept = Buffer.concat(this.#tail).subarray(-this.#half)
    this.#tail = [kept]
    this.#tailBytes = kept.length
    this.#isCut = true
  }
}
