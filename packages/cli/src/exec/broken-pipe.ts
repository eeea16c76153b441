import { constants } from 'node:os'

/** When the reader of our output has gone, what writes inside is ended as a pipe would end it, and so are we. */
export function onBrokenPipe(outputs: readonly NodeJS.WriteStream[], end: () => Promise<void>): void {
  for (const output of outputs) {
    output.removeAllListeners('error')
    output.once('error', (error: NodeJS.ErrnoException) => {
      output.on('error', () => undefined) // every later write fails the same way
      if (error.code !== 'EPIPE') throw error
      end()
        .catch(() => undefined) // nobody is left to be told
        .finally(() => process.exit(128 + constants.signals.SIGPIPE))
    })
  }
}
