// The user's terminal while it belongs to a sandbox.
import { trackInputModes } from './input-modes.ts'

export type RawTerminal = {
  /** What the terminal shows; noted, so that modes left on by a program are switched off again. */
  show(data: Uint8Array): void
  restore(): void
}

/**
 * Puts the terminal into raw mode until `restore`. It is restored on every way out: the end of the process runs it as well,
 * and signals that would end the process first are turned into an exit with their code.
 */
export function openRawTerminal(input: NodeJS.ReadStream, output: NodeJS.WriteStream): RawTerminal {
  const modes = trackInputModes()
  let isRestored = false
  input.setRawMode(true)

  const restore = () => {
    if (isRestored) return
    isRestored = true
    process.off('exit', restore)
    for (const [signal, handler] of handlers) process.off(signal, handler)
    input.setRawMode(false)
    // Keypad, colours and character set as they were; then the modes that were seen to be switched on.
    output.write(`\x1b[0m\x1b>\x1b(B${modes.resets()}`)
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
      modes.note(data)
    },
  }
}
