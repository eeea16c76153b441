// Prints an error and chooses the exit code.
import { styleText } from 'node:util'
import { SandglassError } from '@sandglass/contract/tables'
import { UsageError } from '../parser/parse.ts'
import { printable, printableJson, printableLines } from './printable.ts'

export type ReportOptions = { isDebug: boolean; isJson: boolean }

/** Prints an error, as a rule in one line, and the next step, or as the contract's JSON, and returns the exit code. */
export function report(error: unknown, { isDebug, isJson }: ReportOptions): number {
  const stream = process.stderr
  const known = knownError(error)
  if (isJson) stream.write(`${printableJson({ error: known.toWire() })}\n`)
  else {
    const lines = error instanceof UsageError ? [error.message, ...error.more] : [known.message]
    for (const line of lines) stream.write(`${styleText('red', 'sandglass:', { stream })} ${printable(line)}\n`)
    if (known.hint) stream.write(`  ${styleText('dim', 'next:', { stream })} ${printable(known.hint)}\n`)
    if (known.requestId && known.is('INTERNAL')) stream.write(`  request: ${printable(known.requestId)}\n`)
  }
  if (isDebug && error instanceof Error) stream.write(`${printableLines(trace(error))}\n`)
  return known.exitCode
}

function knownError(error: unknown): SandglassError {
  if (error instanceof SandglassError) return error
  if (error instanceof UsageError)
    return new SandglassError('USAGE', { issue: [error.message, ...error.more].join('; '), next: error.next }, { cause: error })
  return unexpected(error)
}

/** An error of the command line itself that has no code. */
function unexpected(error: unknown): SandglassError {
  const isSystem = error instanceof Error && 'syscall' in error
  const message = `${isSystem ? '' : 'internal error: '}${error instanceof Error ? error.message : String(error)}`
  return new SandglassError('INTERNAL', { message, next: 'run the command again with SANDGLASS_DEBUG=1 to see the stack trace' })
}

function trace(error: Error): string {
  const cause = error.cause instanceof Error ? `\ncaused by ${trace(error.cause)}` : ''
  return (error.stack ?? error.message) + cause
}
