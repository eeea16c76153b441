// SECURITY: the output of a program in a sandbox may be hostile to a terminal: it may set the clipboard (OSC 52), rename the window, make
// the terminal type an answer to a query, or leave it in another mode. Text, colours and cursor movement pass; the rest is dropped.
// Many terminals treat the control characters U+0080 to U+009F as ESC and a letter; they are dropped as characters and as single bytes, so
// that what follows them is text.

const ESC = 0x1b
const BEL = 0x07
const FIRST_OF_C1 = 0xc2
/**
 * CSI sequences that only move the cursor, erase or colour. With one of < = > ? in front of its numbers, or with an intermediate
 * character, the same final letter means something else: CSI > 4 ; 2 m changes what the keys send, CSI ? 4 m makes the terminal answer.
 */
// biome-ignore lint/suspicious/noControlCharactersInRegex: sequences begin with ESC
const SAFE_CSI = /^\x1b\[[\d;:]*[ABCDEFGHJKfm]$/
/** ESC followed by one of these starts a string that ends with BEL or ESC \. */
const STRING_STARTS = new Set([...'PX]^_'].map(char => char.charCodeAt(0)))
/** Longer than any sequence that passes; a longer one is dropped. */
const MAX_SEQUENCE = 64

/** Returns a filter for a stream of bytes, which may be split anywhere. */
export function createSafeOutput(): (data: Uint8Array) => Uint8Array {
  let state: 'text' | 'escape' | 'intermediate' | 'csi' | 'string' | 'string escape' = 'text'
  let sequence: number[] = []
  /** The number of missing bytes of the current UTF-8 character. */
  let pending = 0
  /** 0xC2, the first byte of U+0080 to U+00BF, is held back until the second byte. */
  let isHeld = false
  return data => {
    const out: number[] = []
    for (const byte of data) {
      if (state === 'csi' && (byte < 0x20 || byte > 0x7e) && byte !== ESC) state = 'text' // a sequence has no such byte
      if (state === 'text') {
        if (byte === ESC) begin()
        else addText(byte, out)
      } else if (state === 'escape') {
        if (byte === 0x5b) {
          state = 'csi'
          sequence.push(byte)
        } else if (byte === ESC) begin()
        else if (STRING_STARTS.has(byte)) state = 'string'
        else state = byte >= 0x20 && byte <= 0x2f ? 'intermediate' : 'text'
      } else if (state === 'intermediate') {
        if (byte === ESC) begin()
        else if (byte < 0x20 || byte > 0x2f) state = 'text'
      } else if (state === 'csi') {
        sequence.push(byte)
        if (byte === ESC) begin()
        else if (byte >= 0x40 && byte <= 0x7e) {
          if (sequence.length <= MAX_SEQUENCE && SAFE_CSI.test(String.fromCharCode(...sequence))) out.push(...sequence)
          state = 'text'
        } else if (sequence.length > MAX_SEQUENCE) sequence.length = MAX_SEQUENCE
      } else if (state === 'string') {
        if (byte === ESC) state = 'string escape'
        else if (byte === BEL) state = 'text'
      } else if (byte !== ESC) {
        // ESC \ ends a string. So does any other escape, whose sequence is dropped.
        state = byte === 0x5c ? 'text' : STRING_STARTS.has(byte) ? 'string' : 'text'
      }
    }
    return Uint8Array.from(out)
  }

  function begin() {
    state = 'escape'
    sequence = [ESC]
    pending = 0
    isHeld = false
  }

  function addText(byte: number, out: number[]) {
    const isContinuation = (byte & 0xc0) === 0x80
    const isC1 = byte >= 0x80 && byte <= 0x9f
    if (isHeld) {
      isHeld = false
      if (isC1) return
      out.push(FIRST_OF_C1)
      if (isContinuation) return void out.push(byte)
    }
    if (isContinuation && pending > 0) {
      pending--
      out.push(byte)
      return
    }
    pending = byte >= 0xf0 && byte <= 0xf4 ? 3 : byte >= 0xe0 && byte <= 0xef ? 2 : byte >= 0xc3 && byte <= 0xdf ? 1 : 0
    if (byte === FIRST_OF_C1) isHeld = true
    // Drops NUL to US except BEL to CR.
    else if (!isC1 && byte !== 0x7f && (byte >= 0x20 || (byte >= 0x07 && byte <= 0x0d))) out.push(byte)
  }
}
