// Free disk space after the kernel has flushed its dirty pages. Pages that sessions have written take their blocks later, even of a paused session.
import { readFileSync } from 'node:fs'
import { forEachConcurrently } from '../../lib/for-each-concurrently.ts'
import type { SessionContext } from '../context.ts'
import type { LiveSession } from '../live.ts'

const READS_AT_ONCE = 16

/** `free` less the dirty bytes of sessions. Sessions are read only where the result could be less than `needed`. */
export async function freeAfterFlush({ live }: SessionContext, free: number, needed: number): Promise<number> {
  const least = free - hostDirtyBytes()
  if (least >= needed) return least
  const dirty = await dirtyBytes(live.all())
  return free - [...dirty.values()].reduce((sum, bytes) => sum + bytes, 0)
}

/** By session id. */
export async function dirtyBytes(sessions: readonly LiveSession[]): Promise<Map<string, number>> {
  const found = new Map<string, number>()
  await forEachConcurrently([...sessions], READS_AT_ONCE, async ({ record, machine }) => {
    found.set(record.id, (await machine.dirtyBytes?.()) ?? 0)
  })
  return found
}

/** Dirty bytes of the whole host: an upper bound for those of sessions. */
export function hostDirtyBytes(): number {
  const text = readFileSync('/proc/meminfo', 'utf8')
  const kib = (name: string) => Number(new RegExp(`^${name}: +(\\d+) kB$`, 'm').exec(text)?.[1] ?? 0)
  return (kib('Dirty') + kib('Writeback')) * 1024
}
