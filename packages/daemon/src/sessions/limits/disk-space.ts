// Free disk space minus dirty pages that sessions wrote and the kernel has not flushed: those take their blocks later, even of a paused session.
import { readFileSync } from 'node:fs'
import { forEachAtOnce } from '../../lib/for-each-at-once.ts'
import type { SessionContext } from '../context.ts'
import type { LiveSession } from '../live.ts'

const READS_AT_ONCE = 16

/** `free` less unwritten bytes. Sessions are asked only where the answer could be less than `needed`. */
export async function freeAfterWrites({ live }: SessionContext, free: number, needed: number): Promise<number> {
  const least = free - heldByKernel()
  if (least >= needed) return least
  const unwritten = await unwrittenBytes(live.all())
  return free - [...unwritten.values()].reduce((sum, bytes) => sum + bytes, 0)
}

/** By session. */
export async function unwrittenBytes(sessions: readonly LiveSession[]): Promise<Map<string, number>> {
  const found = new Map<string, number>()
  await forEachAtOnce([...sessions], READS_AT_ONCE, async ({ row, machine }) => {
    found.set(row.id, (await machine.unwritten?.()) ?? 0)
  })
  return found
}

/** Bytes of files that are written in memory and not yet to a disk, of the whole host: sessions have no more. */
export function heldByKernel(): number {
  const text = readFileSync('/proc/meminfo', 'utf8')
  const kib = (name: string) => Number(new RegExp(`^${name}: +(\\d+) kB$`, 'm').exec(text)?.[1] ?? 0)
  return (kib('Dirty') + kib('Writeback')) * 1024
}
