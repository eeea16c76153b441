// Starts QEMU through `launcher supervise`. The supervisor opens the files that QEMU may use, starts QEMU in a jail, writes the boot log, and
// ends with QEMU.
import type { Writable } from 'node:stream'
import { jobLine, type LauncherProcess, parseResult, readResult, spawnLauncher } from '../../launcher/exchange.ts'
import { RELEASE_LINE, type VmJob, VmResult } from '../../launcher/schema.ts'
import type { ProcessState } from '../../machine/process-state.ts'

export interface Supervised {
  readonly qemu: ProcessState
  readonly supervisor: ProcessState
  /** Lets the machine outlive this process. Until then it ends with this process, however that ends. */
  release(): void
}

/** The supervisor could not start QEMU. */
export class SupervisorError extends Error {
  override readonly name = 'SupervisorError'
}

export async function startSupervised(launcherPath: string, id: string, job: VmJob): Promise<Supervised> {
  const child = spawnLauncher(launcherPath, ['supervise', id], 'ignore')
  child.stdin.write(jobLine(job))
  const line = await readResult(child)
  if (line === null)
    throw refused(
      child,
      child.pid === undefined ? `cannot start ${launcherPath}` : 'the supervisor of the machine gave no result',
    )
  const result = parseResult(VmResult, line, (why, cause) => refused(child, why, cause))
  if (!result.ok) throw refused(child, result.error)
  child.unref()
  unreference(child.stdin)
  return { qemu: result.qemu, supervisor: result.supervisor, release: () => child.stdin.end(RELEASE_LINE) }
}

/** The end of stdin makes the supervisor end its machine. */
function refused(child: LauncherProcess, why: string, cause?: unknown): SupervisorError {
  child.stdin.destroy()
  return new SupervisorError(why, { cause })
}

/** A daemon that has nothing else to do may exit. */
function unreference(stream: Writable): void {
  if ('unref' in stream && typeof stream.unref === 'function') stream.unref()
}
