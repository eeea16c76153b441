// Terminal output as text: the terminal's line ends undone, escape sequences and C1 controls removed, and bytes that are not UTF-8
// replaced by U+FFFD. It works on pieces: however the bytes are cut, the text is the same.
// SECURITY: a sandbox chooses these bytes. Each character is looked at once, and a long output gives others their turn in between.
import { setImmediate as turn } from 'node:timers/promises'

/** A longer control string is taken for text that happens to follow an escape. */
const LONGEST_SEQUENCE = 4096
/** How many bytes are cleaned before everyone else has a turn. */
const AT_ONCE = 256 * 1024

const [BEL, CR, ESC, BACKSLASH] = [0x07, 0x0d, 0x1b, 0x5c]
// biome-ignore lint/suspicious/noControlCharactersInRegex: control characters are what this file is about
const REMARKABLE = /[\x1b\x80-\x9f]/

export async function cleanOutput(bytes: Uint8Array, isRaw: boolean): Promise<string> {
  const cleaner = new OutputCleaner(isRaw)
  let text = ''
  for (let at = 0; at < bytes.length; at += AT_ONCE) {
    if (at > 0) await turn()
    text += cleaner.push(bytes.subarray(at, at + AT_ONCE))
  }
  return text + cleaner.end()
}

/**
 * What the character after those held can be. `escape`: ESC was the last, or ESC and intermediates. `csi`: ESC [ and parameters;
 * `csiEnd`: its intermediates have begun. `string`: ESC ] P X ^ _ and text, up to BEL or ESC \. `stringEnd`: the ESC of that.
 */
type State = 'text' | 'escape' | 'csi' | 'csiEnd' | 'string' | 'stringEnd'

export class OutputCleaner {
  readonly #isRaw: boolean
  readonly #decoder = new TextDecoder('utf-8', { ignoreBOM: true })
  #state: State = 'text'
  /** A sequence that is not complete yet, without its ESC: it is text after all if it never gets to be one. */
  readonly #held: number[] = []
  /** What this piece comes to, with room for a sequence of an earlier one that is text after all. */
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

  /** What was held back. A sequence that never ended is dropped, as a terminal would. */
  end(): string {
    const rest = this.#cleaned(this.#decoder.decode())
    return this.#hasReturn ? `${rest}\r` : rest
  }

  #cleaned(text: string): string {
    return this.#isRaw ? text : this.#withoutReturns(this.#withoutControls(text))
  }

  #withoutControls(text: string): string {
    if (this.#state === 'text' && !REMARKABLE.test(text)) return text
    if (this.#kept.length < text.length + LONGEST_SEQUENCE) this.#kept = new Uint16Array(text.length + LONGEST_SEQUENCE)
    this.#keptLength = 0
    for (let at = 0; at < text.length; at++) this.#take(text.charCodeAt(at))
    return Buffer.from(this.#kept.buffer, 0, this.#keptLength * 2).toString('utf16le')
  }

  #take(code: number): void {
    while (this.#state !== 'text') {
      const next = following(this.#state, code, this.#held.length)
      if (next === null || (next !== 'text' && this.#held.length >= LONGEST_SEQUENCE - 2)) {
        this.#giveBack()
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

  /** It is no sequence: only its ESC goes. If it ended in another ESC, that one begins the next. */
  #giveBack(): void {
    const endsInEscape = this.#state === 'stringEnd'
    if (endsInEscape) this.#held.pop()
    for (const code of this.#held) this.#keep(code)
    this.#become(endsInEscape ? 'escape' : 'text')
  }

  #keep(code: number): void {
    // C1: terminals that honour them take U+009B for ESC [ and U+009D for ESC ].
    if (code < 0x80 || code > 0x9f) this.#kept[this.#keptLength++] = code
  }

  /** The terminal turned each \n into \r\n; a \r of the program's own stays. */
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
