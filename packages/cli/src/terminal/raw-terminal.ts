// The user's terminal while it is attached to a sandbox.
import { trackInputModes } from './input-modes.ts'

export type RawTerminal = {
  /** Writes to the terminal, and tracks modes that a program switches on, so that `restore` can switch them off. */
  show(data: Uint8Array): void
  restore(): void
}

/**
 * Puts the terminal into raw mode until `restore`, which also runs when this process exits, and before a signal ends it.
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
    // Reset colours, keypad and character set, then the modes that were switched on.
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
