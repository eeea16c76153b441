// Converts terminal output to text: \r\n becomes \n, escape sequences and C1 controls are removed, and bytes that are not UTF-8 are
// replaced by U+FFFD. It is a streaming parser: the text does not depend on where the bytes are split.
// SECURITY: a sandbox chooses these bytes. Each character is read once, and a long output yields to the event loop in between.
import { setImmediate as yieldToOthers } from 'node:timers/promises'

/** A longer control string is treated as text. */
const LONGEST_SEQUENCE = 4096
/** How many bytes are cleaned before the event loop runs other work. */
const AT_ONCE = 256 * 1024

const [BEL, CR, ESC, BACKSLASH] = [0x07, 0x0d, 0x1b, 0x5c]
// biome-ignore lint/suspicious/noControlCharactersInRegex: control characters are what this file is about
const CONTROLS = /[\x1b\x80-\x9f]/

export async function cleanOutput(bytes: Uint8Array, isRaw: boolean): Promise<string> {
  const cleaner = new OutputCleaner(isRaw)
  let text = ''
  for (let at = 0; at < bytes.length; at += AT_ONCE) {
    if (at > 0) await yieldToOthers()
    text += cleaner.push(bytes.subarray(at, at + AT_ONCE))
  }
  return text + cleaner.end()
}

/**
 * The state of the parser. `escape`: after ESC and intermediates. `csi`: after ESC [ and parameters; `csiEnd`: after its first
 * intermediate. `string`: after ESC ] P X ^ or _ and text, which BEL or ESC \ ends. `stringEnd`: after the ESC of that.
 */
type State = 'text' | 'escape' | 'csi' | 'csiEnd' | 'string' | 'stringEnd'

export class OutputCleaner {
  readonly #isRaw: boolean
  readonly #decoder = new TextDecoder('utf-8', { ignoreBOM: true })
  #state: State = 'text'
  /** The characters of an incomplete sequence, without its ESC. They become text if the sequence turns out to be invalid. */
  readonly #held: number[] = []
  /** Output for the current piece, with space for an invalid sequence that an earlier piece began. */
  #kept = new Uint16Array(0)
  #keptLength = 0
  /** A carriage return whose line feed may still come. */
  #hasReturn = false

  constructor(isRaw: boolean) {
    this.#isRaw = isRaw
  }

  push(bytes: Uint8Array): string {
    return this.#cleaned(this.#decoder.decode(bytes, { stream: true }))
  }

  /** The rest of the text. An incomplete sequence is dropped, as a terminal would. */
  end(): string {
    const rest = this.#cleaned(this.#decoder.decode())
    return this.#hasReturn ? `${rest}\r` : rest
  }

  #cleaned(text: string): string {
    return this.#isRaw ? text : this.#withoutReturns(this.#withoutControls(text))
  }

  #withoutControls(text: string): string {
    if (this.#state === 'text' && !CONTROLS.test(text)) return text
    if (this.#kept.length < text.length + LONGEST_SEQUENCE) this.#kept = new Uint16Array(text.length + LONGEST_SEQUENCE)
    this.#keptLength = 0
    for (let at = 0; at < text.length; at++) this.#take(text.charCodeAt(at))
    return Buffer.from(this.#kept.buffer, 0, this.#keptLength * 2).toString('utf16le')
  }

  #take(code: number): void {
    while (this.#state !== 'text') {
      const next = following(this.#state, code, this.#held.length)
      if (next === null || (next !== 'text' && this.#held.length >= LONGEST_SEQUENCE - 2)) {
        this.#keepAsText()
        continue
      }
      if (next === 'text') this.#become('text')
      else {
        this.#state = next
        this.#held.push(code)
      }
      return
    }
    if (code === ESC) this.#state = 'escape'
    else this.#keep(code)
  }

  #become(state: State): void {
    this.#state = state
    this.#held.length = 0
  }

  /** The sequence is invalid: only its ESC is removed. If its last character is another ESC, that begins the next sequence. */
  #keepAsText(): void {
    const endsInEscape = this.#state === 'stringEnd'
    if (endsInEscape) this.#held.pop()
    for (const code of this.#held) this.#keep(code)
    this.#become(endsInEscape ? 'escape' : 'text')
  }

  #keep(code: number): void {
    // C1: terminals that honour them take U+009B for ESC [ and U+009D for ESC ].
    if (code < 0x80 || code > 0x9f) this.#kept[this.#keptLength++] = code
  }

  /** The terminal turned each \n into \r\n; a \r that the program printed stays. */
  #withoutReturns(piece: string): string {
    if (piece === '') return ''
    let text = this.#hasReturn ? `\r${piece}` : piece
    this.#hasReturn = text.charCodeAt(text.length - 1) === CR
    if (this.#hasReturn) text = text.slice(0, -1)
    return text.replaceAll('\r\n', '\n')
  }
}

/** `text` when this character completes the sequence, null when it cannot be part of it. */
function following(state: Exclude<State, 'text'>, code: number, held: number): State | null {
  const isIntermediate = code >= 0x20 && code <= 0x2f
  switch (state) {
    case 'escape':
      if (isIntermediate) return 'escape'
      if (held === 0 && code === 0x5b) return 'csi'
      if (held === 0 && STRING_STARTS.has(code)) return 'string'
      return code >= 0x30 && code <= 0x7e ? 'text' : null
    case 'csi':
      if (code >= 0x30 && code <= 0x3f) return 'csi'
      return isIntermediate ? 'csiEnd' : endOfCsi(code)
    case 'csiEnd':
      return isIntermediate ? 'csiEnd' : endOfCsi(code)
    case 'string':
      if (code === BEL) return 'text'
      if (code === ESC) return 'stringEnd'
      return code >= 0x20 ? 'string' : null
    case 'stringEnd':
      return code === BACKSLASH ? 'text' : null
  }
}

const STRING_STARTS = new Set([...']PX^_'].map(start => start.charCodeAt(0)))
const endOfCsi = (code: number) => (code >= 0x40 && code <= 0x7e ? 'text' : null)
