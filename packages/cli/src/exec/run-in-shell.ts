import { DEFAULT_SHELL } from '@sandglass/contract/tables'
import type { ExecDone, ExecStream, ExecStreamOptions, Session } from '@sandglass/sdk'
import type { Context } from '../command.ts'
import { toJson } from '../output/show-session.ts'
import { BROKEN_PIPE, onBrokenPipe } from './broken-pipe.ts'
import { Collected } from './collected.ts'
import { forwardInterrupts, INTERRUPTED } from './interrupts.ts'
import { limitNote, neverRanNote, timeoutNote, WaitNote } from './notes.ts'
import { pipedStdin } from './piped-stdin.ts'
import { safeSink } from './safe-sink.ts'
import { ShellKey } from './shell-key.ts'

type ShellRun = ExecStreamOptions & { isStdinPiped: boolean }

/** How long the daemon may take to answer after we have left. */
const PATIENCE_MS = 3000

/** Runs a command line in a stateful shell, with its output as it comes, or with the API's reply at the end. */
export async function runInShell(
  session: Session,
  cmd: string,
  { isStdinPiped, ...options }: ShellRun,
  context: Context,
): Promise<number> {
  const { shell = DEFAULT_SHELL, user } = options
  await using stdin = isStdinPiped ? await pipedStdin(session, user, context.report) : undefined
  await using key = new ShellKey(session, { shell, user }, context.report)
  using wait = new WaitNote(shell, context)
  const left = new AbortController()
  // The daemon ends the command of a client that has left.
  const leave = (code: number) => {
    setTimeout(() => process.exit(code), PATIENCE_MS).unref()
    left.abort()
  }
  // One that waits for its shell is withdrawn: the key would interrupt somebody else's command.
  const interrupt = () => (wait.isWaiting ? leave(INTERRUPTED) : key.press())
  using _ = forwardInterrupts({ send: interrupt, third: 'kills it', leave: () => leave(INTERRUPTED) }, context)
  onBrokenPipe([process.stdout], () => leave(BROKEN_PIPE))
  try {
    const stream = session.execStream(cmd, {
      ...options,
      stdinPath: stdin?.path,
      signal: left.signal,
      onWaiting: isWaiting => wait.set(isWaiting),
    })
    const result = context.json ? await collect(stream, context) : await show(stream, options.rawOutput === true)
    if (process.stdout.errored) return BROKEN_PIPE
    tell(session, result, context)
    return result.exitCode
  } catch (error) {
    if (!left.signal.aborted) throw error
    return process.stdout.errored ? BROKEN_PIPE : INTERRUPTED
  }
}

function tell(
  { id }: Session,
  { timedOut, timeoutMs, started, shell, shellExited, limitHit }: ExecDone,
  { json, say }: Context,
): void {
  if (timedOut) say(started ? timeoutNote(timeoutMs ?? 0) : neverRanNote(timeoutMs ?? 0, shell))
  else if (shellExited) say('sandglass: the command ended its shell; the next one starts a fresh shell\n')
  if (limitHit && !json) say(limitNote(id, limitHit))
}

async function show(stream: ExecStream, isRaw: boolean): Promise<ExecDone> {
  const write = safeSink(process.stdout, isRaw)
  for await (const { chunk } of stream) await write(chunk)
  return stream.result
}

/** The reply of exec, whose output is bounded. */
async function collect(stream: ExecStream, { print }: Context): Promise<ExecDone> {
  const output = new Collected()
  for await (const { chunk } of stream) output.add(Buffer.from(chunk))
  const result = await stream.result
  const text = output.text()
  print(toJson({ ...result, output: text, truncated: output.isTruncated }))
  return result
}
