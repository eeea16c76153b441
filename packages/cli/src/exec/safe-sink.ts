import { createSafeOutput } from '../terminal/safe-output.ts'
import { written } from './broken-pipe.ts'

/** Writes what came out of a sandbox at the reader's speed; on a terminal, without what could harm it unless `isRaw`. */
export function safeSink(output: NodeJS.WriteStream, isRaw: boolean): (data: string | Uint8Array) => Promise<void> {
  const clean = output.isTTY && !isRaw ? createSafeOutput() : undefined
  return data => written(output, clean ? clean(Buffer.from(data)) : data)
}
