import { constants } from 'node:os'
import type { Context } from '../command.ts'

const INTERRUPTED = 128 + constants.signals.SIGINT

export type Interrupted = {
  /** Sends the interrupt inside. */
  send: () => void
  /** What is said when the command is left alone. */
  farewell: string
}

/**
 * Ctrl-C goes inside, as often as it is pressed. A command may not mind it, so the second one tells what the third does: this
 * process goes, and the command stays.
 */
export function forwardInterrupts({ send, farewell }: Interrupted, { say }: Context): Disposable {
  let count = 0
  const onInterrupt = () => {
    count++
    if (count === 2) say('sandglass: still running; Ctrl-C once more leaves it running inside and returns\n')
    if (count < 3) return send()
    say(`sandglass: ${farewell}\n`)
    process.exit(INTERRUPTED)
  }
  process.on('SIGINT', onInterrupt)
  return { [Symbol.dispose]: () => void process.off('SIGINT', onInterrupt) }
}
