import { SandglassError } from '@sandglass/contract/tables'
import type { ProcessInfo, Session } from '@sandglass/sdk'
import { usage } from '../../parser/parse.ts'

/** The pid for a pid or a tag. Of several processes with the tag, the running one counts. */
export async function pidOf(session: Session, given: string): Promise<number> {
  if (/^\d{1,9}$/.test(given)) return Number(given)
  const tagged = (await session.processes.list()).filter(({ tag }) => tag === given)
  const running = tagged.filter(({ running }) => running)
  if (running.length > 1)
    throw usage(
      `${running.length} processes have the tag ${given}: give one of the pids ${running.map(({ pid }) => pid).join(', ')}`,
    )
  const found = running[0] ?? tagged.at(-1)
  if (!found) throw new SandglassError('PROCESS_NOT_FOUND', { pid: given })
  return found.pid
}

/** The detached process that was started last. */
export async function lastDetached(session: Session): Promise<ProcessInfo | undefined> {
  return (await session.processes.list()).findLast(({ detached }) => detached)
}
