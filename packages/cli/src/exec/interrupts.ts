import { constants } from 'node:os'
import type { Context } from '../command.ts'

export const INTERRUPTED = 128 + constants.signals.SIGINT
export const TERMINATED = 128 + constants.signals.SIGTERM

type Interrupted = {
  /** Sends the interrupt inside. */
  send: () => void
  /** What the third Ctrl-C does, as in "Ctrl-C once more kills it". */
  third: string
  leave: () => void
}

/** Ctrl-C goes inside. A command may ignore it, so the second one says what the third one does: it calls `leave`. */
export function forwardInterrupts({ send, third, leave }: Interrupted, { say }: Context): Disposable {
  let count = 0
  const onInterrupt = () => {
    count++
    if (count === 2) say(`sandglass: still running; Ctrl-C once more ${third}\n`)
    if (count < 3) send()
    else if (count === 3) leave()
  }
  process.on('SIGINT', onInterrupt)
  return { [Symbol.dispose]: () => void process.off('SIGINT', onInterrupt) }
}

export type Farewell = {
  /** What is said when the user leaves before the command has ended. */
  farewell?: string
  /** What is done then. */
  end?(): Promise<unknown>
}

/** Ends this process before the command has ended. */
export async function leave(code: number, { farewell, end }: Farewell, context: Context): Promise<void> {
  if (farewell !== undefined) context.say(`sandglass: ${farewell}\n`)
  await end?.().catch(context.report)
  process.exit(code)
}
