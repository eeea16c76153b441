import { constants } from 'node:os'
import type { Context } from '../command.ts'

export const INTERRUPTED = 128 + constants.signals.SIGINT
export const TERMINATED = 128 + constants.signals.SIGTERM

export type Interrupted = {
  /** Sends the interrupt inside. */
  send: () => void
  /** What is said when the user leaves before the command has ended. */
  farewell: string
  /** What is done then; the command goes on inside unless there is something. */
  end?: (() => Promise<void>) | undefined
}

/**
 * Ctrl-C goes inside, as often as it is pressed. A command may not mind it, so the second one tells what the third does: this
 * process goes, and the command stays, or ends with its session.
 */
export function forwardInterrupts({ send, farewell, end }: Interrupted, context: Context): Disposable {
  let count = 0
  const onInterrupt = () => {
    count++
    const third = end ? 'ends it' : 'leaves it running inside and returns'
    if (count === 2) context.say(`sandglass: still running; Ctrl-C once more ${third}\n`)
    if (count < 3) send()
    else if (count === 3) void leave(INTERRUPTED, { farewell, end }, context)
  }
  process.on('SIGINT', onInterrupt)
  return { [Symbol.dispose]: () => void process.off('SIGINT', onInterrupt) }
}

/** Ends this process before the command has ended. */
export async function leave(
  code: number,
  { farewell, end }: Pick<Interrupted, 'farewell' | 'end'>,
  context: Context,
): Promise<void> {
  context.say(`sandglass: ${farewell}\n`)
  await end?.().catch(context.report)
  process.exit(code)
}
