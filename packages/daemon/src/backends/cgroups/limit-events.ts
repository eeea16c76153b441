// How often the groups of one machine reached a limit.
import { readdir } from 'node:fs/promises'
import type { LimitEvents } from '../backend.ts'
import { countOomKills, field, readIn } from './files.ts'
import { type CgroupLayout, RUNTIME_GROUP } from './layout.ts'

const NOT_COUNTED: LimitEvents = { oomKills: null, pidRefusals: null, pids: null, pidsPeak: null }

/** `runner` is the machine's first process, whose threads are not the sandbox's. */
export async function readLimitEvents(
  layout: CgroupLayout | null,
  parent: string,
  group: string,
  runner: number,
): Promise<LimitEvents> {
  if (layout === null) return NOT_COUNTED
  const count = async (file: string) => Number((await readIn(layout, parent, group, 'pids', file)) || 0)
  const [kills, refusals, pids, peak, threads] = await Promise.all([
    oomKills(layout, parent, group),
    pidRefusals(layout, parent, group),
    count('pids.current'),
    count('pids.peak'),
    // None of one that has just ended.
    readdir(`/proc/${runner}/task`).catch(() => []),
  ])
  const own = threads.length
  return { oomKills: kills, pidRefusals: refusals, pids: Math.max(0, pids - own), pidsPeak: Math.max(0, peak - own) }
}

/** How many processes the kernel killed because the machine ran out of memory; null where nothing counts them. */
export async function oomKills(layout: CgroupLayout | null, parent: string, group: string): Promise<number | null> {
  if (layout === null) return null
  return await countOomKills(layout.version, (controller, file) => readIn(layout, parent, group, controller, file))
}

/** How often the machine could make no further process or thread; null where nothing counts it. */
export async function pidRefusals(layout: CgroupLayout | null, parent: string, group: string): Promise<number | null> {
  if (layout === null) return null
  const inGroup = async (inner: string) => field(await readIn(layout, parent, group, 'pids', `${inner}pids.events`), 'max')
  // Kernels differ in whether they count it where the limit is or where the process is.
  const [own, inner] = await Promise.all([inGroup(''), inGroup(`${RUNTIME_GROUP}/`)])
  return own === null ? null : own + (inner ?? 0)
}
