import { LIMITS } from '@sandglass/contract/tables'
import type { ExecDone, ExecOptions, ExecStream, Session } from '@sandglass/sdk'
import type { Context } from '../command.ts'
import { toJson } from '../show-session.ts'
import { BROKEN_PIPE, onBrokenPipe } from './broken-pipe.ts'
import { forwardInterrupts } from './interrupts.ts'
import { limitNote } from './limit-note.ts'
import { pipedStdin } from './piped-stdin.ts'
import { safeSink } from './safe-sink.ts'
import { ShellKey } from './shell-key.ts'
import { timeoutNote } from './timeout-note.ts'

type ShellRun = ExecOptions & {
  isStdinPiped: boolean
  /** The same session, with the sockets that only an interrupt needs. */
  withSockets: () => Promise<Session>
}

/** How long a command may take to end after its reader has gone. */
const PATIENCE_MS = 3000
const FAREWELL = 'left it alone; the command goes on in its shell until it ends or its timeout comes'
const MORE_TIME = 'allow more with --timeout, or run it as a process with -- PROGRAM, which has no timeout'

/** Runs a command line in a stateful shell, with its output as it comes, or with the API's reply at the end. */
export async function runInShell(
  session: Session,
  cmd: string,
  { isStdinPiped, withSockets, ...options }: ShellRun,
  context: Context,
): Promise<number> {
  await using stdin = isStdinPiped ? await pipedStdin(session, context.report) : undefined
  // The braces keep cd and export in this shell, which a pipe or parentheses would not.
  const line = stdin ? `{ ${cmd}\n} < ${stdin.path}` : cmd
  await using key = new ShellKey(withSockets, options.shell, context.report)
  using _ = forwardInterrupts({ send: () => key.press(), farewell: FAREWELL }, context)
  if (context.json) {
    const result = await session.exec(line, options)
    context.print(toJson(result))
    return result.exitCode
  }
  // When nobody reads any more, the command is interrupted, and not waited for without end.
  onBrokenPipe([process.stdout], () => {
    setTimeout(() => process.exit(BROKEN_PIPE), PATIENCE_MS).unref()
    key.press()
  })
  const { exitCode, timedOut, shellExited, limitHit } = await show(
    session.execStream(line, options),
    safeSink(process.stdout, options.rawOutput === true),
  )
  if (process.stdout.errored) return BROKEN_PIPE
  if (timedOut) context.say(timeoutNote(options.timeoutMs ?? LIMITS.exec_timeout_ms.default, MORE_TIME))
  else if (shellExited) context.say('sandglass: the command ended its shell; the next one starts a fresh shell\n')
  if (limitHit) context.say(limitNote(session.id, limitHit))
  return exitCode
}

/** A shell prints an empty line for a job that was ended under it. It is held back until it is known whether the timeout did that. */
async function show(stream: ExecStream, write: (text: string) => Promise<void>): Promise<ExecDone> {
  let isLineStart = true
  let held = ''
  for await (const { chunk } of stream) {
    if (chunk === '') continue
    const isEmptyLine = chunk.endsWith('\n\n') || (chunk === '\n' && isLineStart)
    const shown = held + (isEmptyLine ? chunk.slice(0, -1) : chunk)
    held = isEmptyLine ? '\n' : ''
    isLineStart = chunk.endsWith('\n')
    if (shown !== '') await write(shown)
  }
  const result = await stream.result
  if (!result.timedOut && held !== '') await write(held)
  return result
}
