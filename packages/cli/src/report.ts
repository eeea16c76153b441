import { styleText } from 'node:util'
import { SandglassError } from '@sandglass/contract/tables'
import { printable, printableLines } from './printable.ts'

/** Prints a failure in the one form it has, and gives the exit code. */
export function report(error: unknown, options: { isDebug: boolean }): number {
  const stream = process.stderr
  const known = error instanceof SandglassError ? error : undefined
  const message = known ? known.message : `internal error: ${error instanceof Error ? error.message : String(error)}`
  stream.write(`${styleText('red', 'sandglass:', { stream })} ${printable(message)}\n`)
  if (known?.hint) stream.write(`  ${styleText('dim', 'next:', { stream })} ${printable(known.hint)}\n`)
  if (known?.requestId && known.is('INTERNAL')) stream.write(`  request: ${printable(known.requestId)}\n`)
  if (options.isDebug && error instanceof Error) stream.write(`${printableLines(trace(error))}\n`)
  return known?.exitCode ?? 1
}

function trace(error: Error): string {
  const cause = error.cause instanceof Error ? `\ncaused by ${trace(error.cause)}` : ''
  return (error.stack ?? error.message) + cause
}
