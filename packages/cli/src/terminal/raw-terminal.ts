// The user's terminal while it belongs to a sandbox.

export type RawTerminal = {
  /** What the terminal shows; noted, so that modes left on by a program are switched off again. */
  show(data: Uint8Array): void
  restore(): void
}

/** Modes that programs switch on and a detached terminal must not keep: DEC private mode numbers. */
const ALTERNATE_SCREENS = new Set(['47', '1047', '1049'])
// biome-ignore lint/suspicious/noControlCharactersInRegex: sequences begin with ESC
const MODE_CHANGE = /\x1b\[\?([\d;]+)([hl])/g
// biome-ignore lint/suspicious/noControlCharactersInRegex: sequences begin with ESC
const UNFINISHED = /\x1b(\[(\?[\d;]{0,32})?)?$/
const INPUT_MODES = new Set(['1', '1000', '1002', '1003', '1004', '1005', '1006', '1015', '2004'])

/**
 * Puts the terminal into raw mode until `restore`. It is restored on every way out: the end of the process runs it as well,
 * and signals that would end the process first are turned into an exit with their code.
 */
export function openRawTerminal(input: NodeJS.ReadStream, output: NodeJS.WriteStream): RawTerminal {
  const modes = new Set<string>()
  let tail = ''
  let isRestored = false
  input.setRawMode(true)

  const restore = () => {
    if (isRestored) return
    isRestored = true
    process.off('exit', restore)
    for (const [signal, handler] of handlers) process.off(signal, handler)
    input.setRawMode(false)
    const off = [...modes].map(mode => (mode === '25' ? '\x1b[?25h' : `\x1b[?${mode}l`)).join('')
    // Cursor keys, colours and character set as they were; then the modes that were seen to be switched on.
    output.write(`\x1b[0m\x1b>\x1b(B${off}`)
    input.pause()
  }
  const handlers = (['SIGTERM', 'SIGHUP', 'SIGINT', 'SIGQUIT'] as const).map(signal => {
    const handler = () => {
      restore()
      process.off(signal, handler)
      process.kill(process.pid, signal)
    }
    process.on(signal, handler)
    return [signal, handler] as const
  })
  process.on('exit', restore)

  return {
    restore,
    show(data) {
      output.write(data)
      note(data)
    },
  }

  /** Follows `CSI ? n h` and `CSI ? n l`, also when one is cut between two pieces. */
  function note(data: Uint8Array): void {
    const text = tail + Buffer.from(data).toString('latin1')
    for (const [, numbers = '', action] of text.matchAll(MODE_CHANGE)) {
      for (const mode of numbers.split(';')) {
        const isOn = mode === '25' ? action === 'l' : action === 'h'
        if (mode !== '25' && !ALTERNATE_SCREENS.has(mode) && !INPUT_MODES.has(mode)) continue
        if (isOn) modes.add(mode)
        else modes.delete(mode)
      }
    }
    tail = UNFINISHED.exec(text)?.[0] ?? ''
  }
}
