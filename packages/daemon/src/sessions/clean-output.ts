// biome-ignore-all lint/suspicious/noControlCharactersInRegex: control characters are what this file is about
// Terminal output as text: the terminal's line ends undone, escape sequences removed, and bytes that are not UTF-8 replaced by U+FFFD.
// It works on pieces: however the bytes are cut, the text is the same.

const ESC = '\x1b'
/** A longer control string is taken for text that happens to follow an escape. */
const LONGEST_STRING = 4096
/** ESC [ parameters, intermediates, one final character. */
const CSI = /^\x1b\[[0-?]*[ -/]*[@-~]/
/** ESC ] P X ^ _ and text up to BEL or ESC \; any other control character means that it is no such string. */
const STRING = /^\x1b[\]PX^_][^\x00-\x1f]*(?:\x07|\x1b\\)/
/** ESC, intermediates, one final character: charset choice, keypad modes, save and restore. */
const SHORT = /^\x1b[ -/]*[0-~]/
/** The beginnings of the above, which the next piece may complete. */
const OPEN = /^\x1b(?:\[[0-?]*[ -/]*|[\]PX^_][^\x00-\x1f]*\x1b?|[ -/]*)$/

export function cleanOutput(bytes: Uint8Array, isRaw: boolean): string {
  const cleaner = new OutputCleaner(isRaw)
  return cleaner.push(bytes) + cleaner.end()
}

export class OutputCleaner {
  readonly #isRaw: boolean
  readonly #decoder = new TextDecoder('utf-8', { ignoreBOM: true })
  /** An escape sequence that is not complete yet. */
  #open = ''
  /** A carriage return whose line feed may still come. */
  #hasReturn = false

  constructor(isRaw: boolean) {
    this.#isRaw = isRaw
  }

  push(bytes: Uint8Array): string {
    const text = this.#decoder.decode(bytes, { stream: true })
    return this.#isRaw ? text : this.#withoutReturns(this.#withoutEscapes(text))
  }

  /** What was held back. A sequence that never ended is dropped, as a terminal would. */
  end(): string {
    const text = this.#decoder.decode()
    if (this.#isRaw) return text
    const rest = this.#withoutReturns(this.#withoutEscapes(text))
    return this.#hasReturn ? `${rest}\r` : rest
  }

  #withoutEscapes(piece: string): string {
    let text = this.#open + piece
    this.#open = ''
    let at = text.indexOf(ESC)
    if (at === -1) return text
    let clean = ''
    while (at !== -1) {
      clean += text.slice(0, at)
      text = text.slice(at)
      const head = text.slice(0, LONGEST_STRING)
      const sequence = CSI.exec(head) ?? STRING.exec(head)
      if (!sequence && head.length < LONGEST_STRING && OPEN.test(head)) {
        this.#open = text
        return clean
      }
      // Neither complete nor open: a short sequence, or an escape with nothing to it, which goes alone.
      text = text.slice((sequence ?? (/^\x1b[[\]PX^_]/.test(head) ? null : SHORT.exec(head)))?.[0].length ?? 1)
      at = text.indexOf(ESC)
    }
    return clean + text
  }

  /** The terminal turned each \n into \r\n; a \r of the program's own stays. */
  #withoutReturns(piece: string): string {
    if (piece === '') return ''
    let text = this.#hasReturn ? `\r${piece}` : piece
    this.#hasReturn = text.endsWith('\r')
    if (this.#hasReturn) text = text.slice(0, -1)
    return text.replaceAll('\r\n', '\n')
  }
}
