// Ctrl-C and SIGTERM while a command runs inside.
import type { Context } from '../command.ts'

/** How this process ends before the command inside has ended. */
export type EarlyExit = {
  /** What the third Ctrl-C does, as in "Ctrl-C once more kills it". */
  effect: string
  /** Printed first. */
  message?: string
  /** Runs before the exit; its failure is reported. */
  cleanUp?(): Promise<unknown>
}

export async function exitEarly(code: number, { message, cleanUp }: EarlyExit, context: Context): Promise<void> {
  if (message !== undefined) context.say(`sandglass: ${message}\n`)
  await cleanUp?.().catch(context.report)
  exitNow(code)
}

/** For a person who has pressed Ctrl-C once more: what runs inside goes on. */
export function exitNow(code: number): never {
  process.exit(code)
}

type InterruptHandling = {
  /** Sends the interrupt to the command inside. */
  send: () => void
  effect: EarlyExit['effect']
  exit: () => void
}

/** Forwards the first two Ctrl-C. A command may ignore them, so the second one announces the third, which calls `exit`. */
export function forwardInterrupts({ send, effect, exit }: InterruptHandling, { say }: Context): Disposable {
  let count = 0
  const onInterrupt = () => {
    count++
    if (count === 2) say(`sandglass: still running; Ctrl-C once more ${effect}\n`)
    if (count < 3) send()
    else if (count === 3) exit()
  }
  process.on('SIGINT', onInterrupt)
  return { [Symbol.dispose]: () => void process.off('SIGINT', onInterrupt) }
}
