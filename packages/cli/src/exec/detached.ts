import type { ProcessOptions, Session } from '@sandglass/sdk'
import type { Context } from '../command.ts'
import { toJson } from '../show-session.ts'
import { startProcess } from './run-process.ts'

/** Starts a program that runs on with nobody attached, and prints its pid. */
export async function startDetached(
  session: Session,
  argv: string[],
  options: ProcessOptions,
  context: Context,
): Promise<number> {
  const started = await startProcess(session, argv, { ...options, detach: true }, context)
  if (typeof started === 'number') return started
  context.print(context.json ? toJson(started) : `${started.pid}\n`)
  return 0
}
