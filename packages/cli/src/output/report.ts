import { styleText } from 'node:util'
import { SandglassError } from '@sandglass/contract/tables'
import { UsageError } from '../parser/parse.ts'
import { printable, printableJson, printableLines } from './printable.ts'

export type ReportOptions = { isDebug: boolean; isJson: boolean }

/** Prints a failure in the one form it has, a line and the next step or the contract's JSON, and gives the exit code. */
export function report(error: unknown, { isDebug, isJson }: ReportOptions): number {
  const stream = process.stderr
  const known = knownError(error)
  if (isJson) stream.write(`${printableJson({ error: known.toWire() })}\n`)
  else {
    stream.write(`${styleText('red', 'sandglass:', { stream })} ${printable(known.message)}\n`)
    if (known.hint) stream.write(`  ${styleText('dim', 'next:', { stream })} ${printable(known.hint)}\n`)
    if (known.requestId && known.is('INTERNAL')) stream.write(`  request: ${printable(known.requestId)}\n`)
  }
  if (isDebug && error instanceof Error) stream.write(`${printableLines(trace(error))}\n`)
  return known.exitCode
}

function knownError(error: unknown): SandglassError {
  if (error instanceof SandglassError) return error
  if (error instanceof UsageError)
    return new SandglassError('USAGE', { issue: error.message, next: error.next }, { cause: error })
  return unexpected(error)
}

/** A failure that nobody foresaw, on this side of the wire. */
function unexpected(error: unknown): SandglassError {
  const isSystem = error instanceof Error && 'syscall' in error
  const message = `${isSystem ? '' : 'internal error: '}${error instanceof Error ? error.message : String(error)}`
  return new SandglassError('INTERNAL', { message, next: 'SANDGLASS_DEBUG=1 in front of the command shows where' })
}

function trace(error: Error): string {
  const cause = error.cause instanceof Error ? `\ncaused by ${trace(error.cause)}` : ''
  return (error.stack ?? error.message) + cause
}
