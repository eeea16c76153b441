// Tracks the modes that a program in a sandbox switches on in the user's terminal, to switch them off when it is detached: other screens, a
// hidden cursor, and everything that changes what the keys, the mouse or a paste send.

/** DEC private modes of another screen. */
const ALTERNATE_SCREENS = ['47', '1047', '1049']
/** DEC private modes that change what the terminal sends; all are off in a fresh terminal. */
const INPUT_MODES = [
  ...['1', '9', '66', '67'], // cursor keys, X10 mouse, keypad, backspace
  ...['1000', '1001', '1002', '1003', '1004', '1005', '1006', '1015', '1016'], // mouse and focus
  ...['1050', '1051', '1052', '1053', '1060', '1061'], // keyboards of other terminals
  ...['2004', '2031', '2048'], // bracketed paste, reports of colours and of size
]
const HIDDEN_CURSOR = '25'
const WATCHED = new Set([...ALTERNATE_SCREENS, ...INPUT_MODES])
/** More than any program pushes. */
const MAX_PUSHED = 99

// CSI is ESC [ or, in terminals that take 8-bit controls, one character; the bytes of that are matched as Latin-1.
// biome-ignore lint/suspicious/noControlCharactersInRegex: sequences begin with ESC
const SEQUENCE = /(?:\x1b\[|\xc2?\x9b)([<=>?])([\d;:]{0,64})([hlmu])/g
// biome-ignore lint/suspicious/noControlCharactersInRegex: sequences begin with ESC
const UNFINISHED = /(?:\x1b|\xc2|(?:\x1b\[|\xc2?\x9b)(?:[<=>?][\d;:]{0,64})?)$/

export type InputModes = {
  /** Scans output, which may be split anywhere. */
  note(data: Uint8Array): void
  /** The sequences that switch off all modes that were left on. */
  resets(): string
}

export function trackInputModes(): InputModes {
  const on = new Set<string>()
  /** Resources of modifyOtherKeys and its like that were changed. */
  const modified = new Set<string>()
  /** Of the kitty keyboard protocol: entries pushed, and whether flags were set without a push. */
  let pushed = 0
  let isSet = false
  let tail = ''

  const change: Record<string, (numbers: string[]) => void> = {
    '?h': modes => {
      for (const mode of modes) if (mode !== HIDDEN_CURSOR && WATCHED.has(mode)) on.add(mode)
      if (modes.includes(HIDDEN_CURSOR)) on.delete(HIDDEN_CURSOR)
    },
    '?l': modes => {
      for (const mode of modes) on.delete(mode)
      if (modes.includes(HIDDEN_CURSOR)) on.add(HIDDEN_CURSOR)
    },
    '>m': ([resource = '']) => /^\d$/.test(resource) && modified.add(resource),
    '>u': () => {
      pushed = Math.min(pushed + 1, MAX_PUSHED)
    },
    '<u': ([count = '']) => {
      pushed = Math.max(0, pushed - Number(count || 1))
    },
    '=u': () => {
      isSet = true
    },
  }

  return {
    note(data) {
      const text = tail + Buffer.from(data).toString('latin1')
      for (const [, prefix = '', numbers = '', final = ''] of text.matchAll(SEQUENCE))
        change[prefix + final]?.(numbers.split(/[;:]/))
      tail = UNFINISHED.exec(text)?.[0] ?? ''
    },
    resets() {
      const modes = [...on].map(mode => `\x1b[?${mode}${mode === HIDDEN_CURSOR ? 'h' : 'l'}`)
      const keys = [...modified].map(resource => `\x1b[>${resource}m`)
      const kitty = `${isSet ? '\x1b[=0u' : ''}${pushed > 0 ? `\x1b[<${pushed}u` : ''}`
      return `${kitty}${keys.join('')}${modes.join('')}`
    },
  }
}
