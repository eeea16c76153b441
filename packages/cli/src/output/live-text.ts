/** Text on a terminal that is shown in the place of the one before; without a terminal one follows the other. */
export class LiveText implements Disposable {
  readonly #stream: NodeJS.WriteStream
  /** Lines on the screen that belong to it. */
  #lines = 0

  constructor(stream: NodeJS.WriteStream) {
    this.#stream = stream
    if (this.isLive) stream.write(HIDE_CURSOR)
  }

  get isLive(): boolean {
    return this.#stream.isTTY === true
  }

  /** Whole lines, none wider than the terminal. What does not fit on the screen is left out. */
  replace(text: string): void {
    if (!this.isLive) return void this.#stream.write(text)
    const lines = text
      .split('\n')
      .slice(0, -1)
      .slice(0, Math.max(1, this.#stream.rows - 1))
    const up = this.#lines > 0 ? `\x1b[${this.#lines}A\r` : ''
    this.#lines = lines.length
    this.#stream.write(`${up}\x1b[J${lines.map(line => `${line}\n`).join('')}`)
  }

  [Symbol.dispose](): void {
    if (this.isLive) this.#stream.write(SHOW_CURSOR)
  }
}

const HIDE_CURSOR = '\x1b[?25l'
const SHOW_CURSOR = '\x1b[?25h'
