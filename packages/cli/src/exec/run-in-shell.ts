import type { ExecOptions, Session } from '@sandglass/sdk'
import type { Context } from '../command.ts'
import { shortDuration } from '../duration.ts'
import { BROKEN_PIPE, onBrokenPipe, written } from './broken-pipe.ts'
import { pipedStdin } from './piped-stdin.ts'

type ShellRun = ExecOptions & {
  isStdinPiped: boolean
  /** The same session, with the sockets that only an interrupt needs. */
  withSockets: () => Promise<Session>
}

/** How long a command may take to end after its reader has gone. */
const PATIENCE_MS = 3000

/** Runs a command line in a stateful shell, with its output as it comes. */
export async function runInShell(
  session: Session,
  cmd: string,
  { isStdinPiped, withSockets, ...options }: ShellRun,
  { say }: Context,
): Promise<number> {
  await using stdin = isStdinPiped ? await pipedStdin(session) : undefined
  // The braces keep cd and export in this shell, which a pipe or parentheses would not.
  const line = stdin ? `{ ${cmd}\n} < ${stdin.path}` : cmd
  await using interrupts = new Interrupts(withSockets, options.shell, say)
  onBrokenPipe([process.stdout], () => interrupts.send())
  const started = performance.now()
  const stream = session.execStream(line, options)
  for await (const { chunk } of stream) await written(process.stdout, chunk)
  const { exitCode, timedOut, shellExited } = await stream.result
  if (process.stdout.errored) return BROKEN_PIPE
  if (timedOut) {
    const time = shortDuration(performance.now() - started)
    say(
      `sandglass: ended after ${time}, its timeout\n  next: allow more with --timeout, or run it as a process with -- ARGV, which has none\n`,
    )
  } else if (shellExited) {
    say('sandglass: the command ended its shell; the next one starts a fresh shell\n')
  }
  return exitCode
}

/** Ctrl-C interrupts the command inside, as if typed there; a second one leaves it running and goes. */
class Interrupts implements AsyncDisposable {
  readonly #withSockets: () => Promise<Session>
  readonly #shell: string | undefined
  readonly #say: Context['say']
  readonly #onInterrupt = () => this.#interrupted()
  #count = 0
  #terminal: Promise<{ close(): void }> | undefined

  constructor(withSockets: () => Promise<Session>, shell: string | undefined, say: Context['say']) {
    this.#withSockets = withSockets
    this.#shell = shell
    this.#say = say
    process.on('SIGINT', this.#onInterrupt)
  }

  /** When nobody reads any more, the command is interrupted, and not waited for without end. */
  send(): void {
    setTimeout(() => process.exit(BROKEN_PIPE), PATIENCE_MS).unref()
    this.#type()
  }

  /** The terminal that typed the key stays attached until the command has ended, so that the key is not lost on the way. */
  async [Symbol.asyncDispose](): Promise<void> {
    process.off('SIGINT', this.#onInterrupt)
    const terminal = await this.#terminal?.catch(() => undefined) // #type has told it
    terminal?.close()
  }

  #interrupted(): void {
    this.#count++
    if (this.#count === 1) {
      this.#type()
      return
    }
    this.#say('sandglass: left; the command may still run\n')
    process.exit(130)
  }

  #type(): void {
    this.#terminal = this.#withSockets().then(async session => {
      const terminal = await session.attachShell(this.#shell)
      await terminal.write('\x03')
      return terminal
    })
    this.#terminal.catch((error: Error) => this.#say(`sandglass: could not interrupt the command: ${error.message}\n`))
  }
}
