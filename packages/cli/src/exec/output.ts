// Writes output of a sandbox to our stdout and stderr.
import { createSafeOutput } from '../terminal/safe-output.ts'

/** Returns a writer that waits for the reader; on a terminal it drops harmful escape sequences unless `isRaw`. */
export function safeSink(output: NodeJS.WriteStream, isRaw: boolean): (data: string | Uint8Array) => Promise<void> {
  const clean = output.isTTY && !isRaw ? createSafeOutput() : undefined
  return data => write(output, clean ? clean(Buffer.from(data)) : data)
}

/** Calls `end` when the reader of an output has gone, so that the program inside can be ended as by SIGPIPE. */
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

/** Waits for backpressure. Data that comes after the reader has gone is dropped. */
async function write(output: NodeJS.WriteStream, data: string | Uint8Array): Promise<void> {
  if (output.errored || output.write(data)) return
  const { promise, resolve } = Promise.withResolvers<void>()
  output.once('drain', resolve).once('error', resolve)
  await promise
  output.off('drain', resolve).off('error', resolve)
}
