// One exchange with a launcher process: the daemon writes a job as a line of stdin, and the launcher answers with one line of stdout.
import { type ChildProcessByStdio, spawn } from 'node:child_process'
import type { Readable, Writable } from 'node:stream'
import type { z } from 'zod'

export type LauncherProcess = ChildProcessByStdio<Writable, Readable, Readable | null>

/** The files of an image that a find job returns have up to 8 MiB, in base64. */
const MAX_RESULT = 12 * 1024 * 1024

/** A launcher that cannot be started or that ends early shows as a missing result. */
export function spawnLauncher(program: string, args: readonly string[], stderr: 'pipe' | 'ignore'): LauncherProcess {
  // In its own session: Ctrl-C at the daemon's terminal must not reach a machine. Without environment: the daemon's may hold keys.
  const options = { detached: true, cwd: '/', env: {} }
  const child: LauncherProcess =
    stderr === 'pipe'
      ? spawn(program, args, { ...options, stdio: ['pipe', 'pipe', 'pipe'] })
      : spawn(program, args, { ...options, stdio: ['pipe', 'pipe', 'ignore'] })
  child.on('error', () => child.stdout.destroy())
  child.stdin.on('error', () => child.stdin.destroy())
  return child
}

export const jobLine = (job: object): string => `${JSON.stringify(job)}\n`

/** Resolves with the result as soon as its line is complete; the process may still run. Null if stdout ends first or sends too much. */
export function readResult({ stdout }: LauncherProcess): Promise<string | null> {
  const { promise, resolve } = Promise.withResolvers<string | null>()
  let text = ''
  stdout.setEncoding('utf8').on('data', (part: string) => {
    text += part
    if (text.endsWith('\n')) resolve(text)
    else if (text.length > MAX_RESULT) stdout.destroy()
  })
  stdout.once('close', () => resolve(null))
  // A launcher that waited for its job may have ended before.
  if (stdout.closed) resolve(null)
  return promise
}

/** `failure` makes the error for a line that is not JSON or does not match the schema. */
export function parseResult<T>(schema: z.ZodType<T>, line: string, failure: (why: string, cause: unknown) => Error): T {
  try {
    return schema.parse(JSON.parse(line))
  } catch (cause) {
    throw failure('invalid result of the launcher', cause)
  }
}
