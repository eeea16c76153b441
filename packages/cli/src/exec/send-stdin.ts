import { SandglassError } from '@sandglass/sdk'
import type { Context } from '../command.ts'

type Input = { write(piece: Uint8Array): Promise<void>; end(): Promise<void> }

/**
 * Sends our stdin until it ends. One that cannot be read, a folder for instance, is told, and ends inside as well: what reads there would
 * wait for ever. A lost connection is told by who reads the output, and input that nobody wants any more is of no interest.
 */
export async function sendStdin(to: Input, report: Context['report'], isOver = () => false): Promise<void> {
  try {
    for await (const piece of process.stdin) {
      if (isOver()) return
      await to.write(piece)
    }
  } catch (error) {
    if (isOver() || process.stdin.errored !== error) return
    await report(
      new SandglassError('SOURCE_FAILED', { path: 'stdin', why: error instanceof Error ? error.message : String(error) }),
    )
  }
  await to.end().catch(() => undefined) // as a lost connection before
}
