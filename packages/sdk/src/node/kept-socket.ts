// A connection of the HTTP client that reads into one buffer: Node's parser copies what it takes out of it.

/** Not imported: see fetch.ts. */
const { Socket } = process.getBuiltinModule('node:net')

const READ_BYTES = 128 * 1024

export class KeptSocket extends Socket {
  #buffer = Buffer.allocUnsafeSlow(READ_BYTES)

  constructor() {
    super({ onread: { buffer: () => this.#buffer, callback: length => this.#take(length) } })
  }

  /** False makes the socket rest until somebody reads. */
  #take(length: number): boolean {
    const wantsMore = this.push(this.#buffer.subarray(0, length))
    // Nobody took it at once, so it waits in the socket's queue and keeps its buffer.
    if (this.readableLength > 0) this.#buffer = Buffer.allocUnsafeSlow(READ_BYTES)
    return wantsMore
  }
}
