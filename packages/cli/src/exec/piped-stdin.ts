import { type ProcessOptions, SandglassError, type Session } from '@sandglass/sdk'
import type { Context } from '../command.ts'
import { sendStdin } from './send-stdin.ts'

export type PipedStdin = AsyncDisposable & { path: string }

/**
 * Makes this process's stdin readable inside under a path: a FIFO in the sandbox that a helper process fills from here.
 */
export async function pipedStdin(session: Session, user: ProcessOptions['user'], report: Context['report']): Promise<PipedStdin> {
  const path = `/tmp/.sandglass-stdin-${crypto.randomUUID()}`
  const script = 'umask 077; mkfifo "$1" && echo ready && exec cat >"$1"'
  const { pid } = await session.processes.start(['sh', '-c', script, 'sh', path], { user, stdin: true, holdOutput: true })
  const attached = await session.processes.attach(pid)
  const output = attached[Symbol.asyncIterator]()
  const first = await output.next()
  if (first.done) throw new SandglassError('INTERNAL', { message: 'cannot make a FIFO in the sandbox for stdin' })
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

/** A command may have removed it: rm -rf /tmp/*. */
function unlessGone(error: unknown): void {
  if (!(error instanceof SandglassError) || !error.is('FILE_NOT_FOUND')) throw error
}
