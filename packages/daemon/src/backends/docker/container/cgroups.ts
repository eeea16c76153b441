// What the cgroups of a container on this machine say, where the engine does not tell it.
import { readFile } from 'node:fs/promises'
import type { LimitEvents } from '../../backend.ts'

export const NOT_COUNTED: LimitEvents = { oomKills: null, pidRefusals: null, pids: null, pidsPeak: null }

/** `pid` is any process of the container. */
export async function limitEventsOf(pid: number): Promise<LimitEvents> {
  const [kills, refusals] = await Promise.all([
    readIn(pid, 'memory', { v1: 'memory.oom_control', v2: 'memory.events' }),
    readIn(pid, 'pids', { v1: 'pids.events', v2: 'pids.events' }),
  ])
  return { ...NOT_COUNTED, oomKills: count(kills, /^oom_kill (\d+)$/m), pidRefusals: count(refusals, /^max (\d+)$/m) }
}

/** Of a period of 100 milliseconds; null where it has no limit. */
export async function cpuQuotaUsec(pid: number): Promise<number | null> {
  return count(await readIn(pid, 'cpu', { v1: 'cpu.cfs_quota_us', v2: 'cpu.max' }), /^(\d+)/)
}

/** The group that counts the processes of the container. */
export const pidsGroupOf = async (pid: number) => (await groupOf(pid, 'pids')).dir

async function readIn(pid: number, controller: string, file: { v1: string; v2: string }): Promise<string> {
  const { dir, version } = await groupOf(pid, controller)
  return await readFile(`${dir}/${file[version]}`, 'utf8')
}

async function groupOf(pid: number, controller: string): Promise<{ dir: string; version: 'v1' | 'v2' }> {
  const groups = await readFile(`/proc/${pid}/cgroup`, 'utf8')
  const v1 = groups.match(new RegExp(`^\\d+:(?:[^:]*,)?${controller}(?:,[^:]*)?:(.+)$`, 'm'))?.[1]
  if (v1 !== undefined) return { dir: `/sys/fs/cgroup/${controller}${v1}`, version: 'v1' }
  return { dir: `/sys/fs/cgroup${groups.match(/^0::(.+)$/m)?.[1]}`, version: 'v2' }
}

function count(text: string, pattern: RegExp): number | null {
  const found = text.match(pattern)?.[1]
  return found === undefined ? null : Number(found)
}
