import { constants } from 'node:os'

/** What a shell shows for a program that SIGPIPE ended. */
export const BROKEN_PIPE = 128 + constants.signals.SIGPIPE

/** Calls `end` when the reader of an output has gone, so that what writes inside can be ended as a pipe would end it. */
export function onBrokenPipe(outputs: readonly NodeJS.WriteStream[], end: () => void): void {
  for (const output of outputs) {
    output.removeAllListeners('error')
    output.once('error', (error: NodeJS.ErrnoException) => {
      output.on('error', () => undefined) // every later write fails the same way
      if (error.code !== 'EPIPE') throw error
      end()
    })
  }
}

/** Writes at the reader's speed. What comes after the reader has gone is dropped. */
export async function written(output: NodeJS.WriteStream, data: string | Uint8Array): Promise<void> {
  if (output.errored || output.write(data)) return
  const { promise, resolve } = Promise.withResolvers<void>()
  output.once('drain', resolve).once('error', resolve)
  await promise
  output.off('drain', resolve).off('error', resolve)
}
