// `exec -c`: a command line in a shell.
import { DEFAULT_SHELL } from '@sandglass/contract/tables'
import type { ExecDone, ExecStream, ExecStreamOptions, Session } from '@sandglass/sdk'
import type { Context } from '../command.ts'
import { toJson } from '../output/show-session.ts'
import { BoundedOutput } from './bounded-output.ts'
import { BROKEN_PIPE, INTERRUPTED } from './exit-codes.ts'
import { forwardInterrupts } from './interrupts.ts'
import { limitNote, neverRanNote, timeoutNote, WaitNote } from './notes.ts'
import { onBrokenPipe, safeSink } from './output.ts'
import { pipedStdin } from './stdin.ts'

type ShellRun = ExecStreamOptions & { isStdinPiped: boolean }

/** How long the daemon may take to answer after the abort. */
const ABORT_TIMEOUT_MS = 3000

/** Runs a command line in a stateful shell. Prints its output as it comes, or with --json the API's reply at the end. */
export async function runInShell(
  session: Session,
  cmd: string,
  { isStdinPiped, ...options }: ShellRun,
  context: Context,
): Promise<number> {
  const { shell = DEFAULT_SHELL, user } = options
  await using stdin = isStdinPiped ? await pipedStdin(session, user, context.report) : undefined
  await using keyboard = new ShellKeyboard(session, { shell, user }, context.report)
  using wait = new WaitNote(shell, context)
  const aborted = new AbortController()
  // When the client disconnects, the daemon ends the command.
  const disconnect = (code: number) => {
    setTimeout(() => process.exit(code), ABORT_TIMEOUT_MS).unref()
    aborted.abort()
  }
  // A command that still waits for its shell is withdrawn: Ctrl-C would interrupt another client's command.
  const interrupt = () => (wait.isWaiting ? disconnect(INTERRUPTED) : keyboard.interrupt())
  using _ = forwardInterrupts({ send: interrupt, effect: 'kills it', exit: () => disconnect(INTERRUPTED) }, context)
  onBrokenPipe([process.stdout], () => disconnect(BROKEN_PIPE))
  try {
    const stream = session.execStream(cmd, {
      ...options,
      stdinPath: stdin?.path,
      signal: aborted.signal,
      onWaiting: isWaiting => wait.set(isWaiting),
    })
    const result = context.json ? await collect(stream, context) : await show(stream, options.rawOutput === true)
    if (process.stdout.errored) return BROKEN_PIPE
    noteResult(session, result, context)
    return result.exitCode
  } catch (error) {
    if (!aborted.signal.aborted) throw error
    return process.stdout.errored ? BROKEN_PIPE : INTERRUPTED
  }
}

function noteResult(
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

/** Prints the API's reply of exec, whose output is bounded. */
async function collect(stream: ExecStream, { print }: Context): Promise<ExecDone> {
  const output = new BoundedOutput()
  for await (const { chunk } of stream) output.add(Buffer.from(chunk))
  const result = await stream.result
  const text = output.text()
  print(toJson({ ...result, output: text, truncated: output.isTruncated }))
  return result
}

/** Types Ctrl-C into the shell of a command. */
class ShellKeyboard implements AsyncDisposable {
  readonly #session: Session
  readonly #target: { shell: string; user: string | undefined }
  readonly #report: Context['report']
  #terminal: Promise<{ write(data: string): Promise<void>; close(): void }> | undefined

  constructor(session: Session, target: { shell: string; user: string | undefined }, report: Context['report']) {
    this.#session = session
    this.#target = target
    this.#report = report
  }

  /** The terminal stays attached until the command has ended, so that the key is not lost on the way. */
  interrupt(): void {
    this.#terminal ??= this.#shellName().then(name => this.#session.attachShell(name))
    this.#terminal.then(terminal => terminal.write('\x03')).catch(error => void this.#report(error))
  }

  /** With --user the command runs in NAME@USER, unless the named shell belongs to that user. The API says which one only at the end. */
  async #shellName(): Promise<string> {
    const { shell, user } = this.#target
    if (user === undefined) return shell
    const own = (await this.#session.shells.list()).filter(s => s.user === user).map(s => s.name)
    return [shell, `${shell}@${user}`].find(name => own.includes(name)) ?? shell
  }

  async [Symbol.asyncDispose](): Promise<void> {
    const terminal = await this.#terminal?.catch(() => undefined) // interrupt has reported the error
    terminal?.close()
  }
}
