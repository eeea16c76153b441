// Starts QEMU through `launcher supervise`. The supervisor opens the files that QEMU may use, starts QEMU in a jail, writes the boot log, and
// ends with QEMU.
import { type ChildProcess, spawn } from 'node:child_process'
import type { Writable } from 'node:stream'
import { RELEASE_LINE, type VmJob, VmResult } from '../../launcher/schema.ts'
import type { ProcessState } from '../../machine/process-state.ts'

export interface Supervised {
  readonly qemu: ProcessState
  readonly supervisor: ProcessState
  /** Lets the machine outlive this process. Until then it ends with this process, however that ends. */
  release(): void
}

const MAX_RESULT = 64 * 1024

/** The supervisor could not start QEMU. */
export class SupervisorError extends Error {
  override readonly name = 'SupervisorError'
}

export async function startSupervised(launcherPath: string, id: string, job: VmJob): Promise<Supervised> {
  // In its own session: Ctrl-C at the daemon's terminal must not reach a machine. Without environment: the daemon's may hold keys.
  const child = spawn(launcherPath, ['supervise', id], { stdio: ['pipe', 'pipe', 'ignore'], detached: true, cwd: '/', env: {} })
  child.stdin.on('error', () => child.stdin.destroy())
  child.stdin.write(`${JSON.stringify(job)}\n`)
  const line = await readLine(child)
  if (line === null) throw refused(child, 'the supervisor of the machine gave no result')
  const result = VmResult.parse(JSON.parse(line))
  if (!result.ok) throw refused(child, result.error)
  child.unref()
  unreference(child.stdin)
  return { qemu: result.qemu, supervisor: result.supervisor, release: () => child.stdin.end(RELEASE_LINE) }
}

function refused(child: ChildProcess, why: string): SupervisorError {
  child.stdin?.destroy()
  return new SupervisorError(why)
}

/** Null if stdout ends before a line does. */
async function readLine(child: ChildProcess): Promise<string | null> {
  let text = ''
  const done = Promise.withResolvers<void>()
  child.once('error', done.reject)
  child.stdout?.setEncoding('utf8').on('data', (part: string) => {
    text += part
    if (text.endsWith('\n') || text.length > MAX_RESULT) done.resolve()
  })
  child.stdout?.once('close', done.resolve)
  await done.promise
  return text.endsWith('\n') ? text : null
}

/** A daemon that has nothing else to do may exit. */
function unreference(stream: Writable): void {
  if ('unref' in stream && typeof stream.unref === 'function') stream.unref()
}
