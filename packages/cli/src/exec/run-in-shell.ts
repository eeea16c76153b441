import type { ExecOptions, Session } from '@sandglass/sdk'
import type { Context } from '../command.ts'
import { shortDuration } from '../duration.ts'
import { onBrokenPipe } from './broken-pipe.ts'
import { pipedStdin } from './piped-stdin.ts'

type ShellRun = ExecOptions & {
  isStdinPiped: boolean
  /** The same session, with the sockets that only an interrupt needs. */
  withSockets: () => Promise<Session>
}

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
  const interrupts = forwardInterrupts(withSockets, options.shell, say)
  onBrokenPipe([process.stdout], () => interrupt(withSockets, options.shell))
  const started = performance.now()
  try {
    const stream = session.execStream(line, options)
    for await (const { chunk } of stream) {
      if (!process.stdout.write(chunk)) await new Promise<void>(resolve => process.stdout.once('drain', resolve))
    }
    const { exitCode, timedOut, shellExited } = await stream.result
    if (timedOut)
      say(
        `sandglass: ended after ${shortDuration(performance.now() - started)}, its timeout\n  next: allow more with --timeout, or run it as a process with -- ARGV, which has none\n`,
      )
    else if (shellExited) say('sandglass: the command ended its shell; the next one starts a fresh shell\n')
    return exitCode
  } finally {
    interrupts[Symbol.dispose]()
  }
}

/** Ctrl-C interrupts the command inside, as if typed there; a second one leaves it running and goes. */
function forwardInterrupts(withSockets: () => Promise<Session>, shell: string | undefined, say: Context['say']): Disposable {
  let count = 0
  const onInterrupt = () => {
    count++
    if (count > 1) {
      say('sandglass: left; the command may still run\n')
      process.exit(130)
    }
    interrupt(withSockets, shell).catch((error: Error) => say(`sandglass: could not interrupt the command: ${error.message}\n`))
  }
  process.on('SIGINT', onInterrupt)
  return { [Symbol.dispose]: () => void process.off('SIGINT', onInterrupt) }
}

/** The key goes in front of the close on the same connection, so it arrives. */
async function interrupt(withSockets: () => Promise<Session>, shell: string | undefined): Promise<void> {
  const terminal = await (await withSockets()).attachShell(shell)
  await terminal.write('\x03')
  terminal.close()
}
