// Passes our stdin to a command in a session.
import { type ProcessOptions, SandglassError, type Session } from '@sandglass/sdk'
import type { Context } from '../command.ts'

/** False for a terminal, /dev/null and a closed stdin, which have nothing to pass on. */
export function hasStdin(): boolean {
  try {
    const stat = process.getBuiltinModule('node:fs').fstatSync(0)
    return stat.isFIFO() || stat.isFile() || stat.isSocket()
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'EBADF') return false
    throw error
  }
}

type Input = { write(piece: Uint8Array): Promise<void>; end(): Promise<void> }

/**
 * Sends our stdin until it ends. If it cannot be read (it may be a folder), that is reported and the input inside is ended, so that its
 * reader does not wait for ever. Failed writes are ignored: the reader of the output reports a lost connection.
 */
export async function sendStdin(to: Input, report: Context['report'], isOver = () => false): Promise<void> {
  try {
    for await (const piece of process.stdin) {
      if (isOver()) return
      await to.write(piece)
    }
  } catch (error) {
    if (isOver() || process.stdin.errored !== error) return
    await report(
      new SandglassError('SOURCE_FAILED', { path: 'stdin', why: error instanceof Error ? error.message : String(error) }),
    )
  }
  await to.end().catch(() => undefined) // the program has ended: its exit status is reported
}

export type PipedStdin = AsyncDisposable & { path: string }

/** Makes our stdin readable inside at a path: a FIFO that a helper process in the sandbox fills with what it gets from here. */
export async function pipedStdin(session: Session, user: ProcessOptions['user'], report: Context['report']): Promise<PipedStdin> {
  const path = `/tmp/.sandglass-stdin-${crypto.randomUUID()}`
  const script = 'umask 077; mkfifo "$1" && echo ready && exec cat >"$1"'
  const { pid } = await session.processes.start(['sh', '-c', script, 'sh', path], { user, stdin: true, holdOutput: true })
  const attached = await session.processes.attach(pid)
  const output = attached[Symbol.asyncIterator]()
  const first = await output.next()
  if (first.done) throw new SandglassError('INTERNAL', { message: 'cannot create a FIFO for stdin in the sandbox' })
  let isOver = false
  const sent = sendStdin(attached, report, () => isOver)
  return {
    path,
    async [Symbol.asyncDispose]() {
      isOver = true
      process.stdin.destroy()
      await session.files.remove(path, { user }).catch(unlessGone)
      await session.processes.signal(pid, 'KILL').catch(() => undefined) // it has usually ended by itself
      attached.close()
      await sent
    },
  }
}

/** The command may have removed the FIFO, with rm -rf /tmp/* for instance. */
function unlessGone(error: unknown): void {
  if (!(error instanceof SandglassError) || !error.is('FILE_NOT_FOUND')) throw error
}
