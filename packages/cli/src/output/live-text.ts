// Text that is redrawn in place on a terminal.
/** Text that replaces itself on a terminal; elsewhere each text is printed after the one before. */
export class LiveText implements Disposable {
  readonly #stream: NodeJS.WriteStream
  /** The number of lines of the current text on the screen. */
  #lines = 0

  constructor(stream: NodeJS.WriteStream) {
    this.#stream = stream
    if (this.isLive) stream.write(HIDE_CURSOR)
  }

  get isLive(): boolean {
    return this.#stream.isTTY === true
  }

  /** `text` is whole lines, none wider than the terminal. Lines that do not fit on the screen are left out. */
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
