// Detects the keys that detach a terminal: `~.` at the start of a line, as in ssh. All other keys are sent to the sandbox.

export type Keys = { data: Uint8Array<ArrayBuffer>; isDetach: boolean }

const TILDE = 0x7e
const DOT = 0x2e
const isNewline = (byte: number) => byte === 0x0d || byte === 0x0a

/** Returns a reader of keys. `~` at the start of a line is held back until the next key; `~~` sends one `~`. */
export function createDetachReader(): (keys: Uint8Array) => Keys {
  let state: 'line start' | 'tilde' | 'inside' = 'line start'
  return keys => {
    const sent: number[] = []
    for (const byte of keys) {
      if (state === 'tilde') {
        if (byte === DOT) return { data: Uint8Array.from(sent), isDetach: true }
        sent.push(TILDE)
        if (byte !== TILDE) sent.push(byte)
        state = isNewline(byte) ? 'line start' : 'inside'
      } else if (state === 'line start' && byte === TILDE) {
        state = 'tilde'
      } else {
        sent.push(byte)
        state = isNewline(byte) ? 'line start' : 'inside'
      }
    }
    return { data: Uint8Array.from(sent), isDetach: false }
  }
}
