// The output of a step, passed on in whole lines. The last ones are kept for the error of a failed step.
import { StringDecoder } from 'node:string_decoder'

/** A longer line is passed on in pieces. */
const MAX_LINE = 8192
const LAST_LINES = 20

export class StepOutput {
  readonly last: string[] = []
  readonly #onText: (text: string) => void
  readonly #decoder = new StringDecoder('utf8')
  #rest = ''

  constructor(onText: (text: string) => void) {
    this.#onText = onText
  }

  add(bytes: Buffer): void {
    this.#rest += this.#decoder.write(bytes)
    const end = this.#rest.lastIndexOf('\n')
    const whole = end >= 0 ? this.#rest.slice(0, end + 1) : ''
    this.#rest = this.#rest.slice(whole.length)
    if (whole !== '') this.#pass(whole)
    if (this.#rest.length > MAX_LINE) this.end()
  }

  /** Passes on a last line without its end. */
  end(): void {
    this.#rest += this.#decoder.end()
    if (this.#rest !== '') this.#pass(`${this.#rest}\n`)
    this.#rest = ''
  }

  #pass(text: string): void {
    this.#onText(text)
    const lines = text.slice(0, -1).split('\n').slice(-LAST_LINES)
    this.last.push(...lines.map(line => line.slice(0, MAX_LINE).replace(/\r$/, '')))
    this.last.splice(0, this.last.length - LAST_LINES)
  }
}
