// What a cgroup counts: usage, limits, and how often a limit was reached.
import { readdir } from 'node:fs/promises'
import type { LimitEvents, MachineStats } from '../backend.ts'
import { RUNNER_THREADS } from '../machine/runner-config.ts'
import { type Cgroup, field, readCgroupFile } from './cgroup.ts'
import { type Controller, RUNTIME_GROUP } from './layout.ts'

const NO_STATS: MachineStats = {
  cpuUsageUsec: 0,
  memoryBytes: 0,
  memoryLimit: null,
  memoryPeakBytes: null,
  oomKills: null,
  pids: 0,
  pidsLimit: null,
}
export const NO_LIMIT_EVENTS: LimitEvents = { oomKills: null, pidRefusals: null, pids: null, pidsPeak: null }

/** What a machine uses; zeros and nulls where there is no cgroup that counts it. */
export async function readStats(cgroup: Cgroup | null): Promise<MachineStats> {
  if (cgroup === null) return NO_STATS
  return cgroup.version === 1 ? await statsV1(cgroup) : await statsV2(cgroup)
}

/** `runner` is the machine's first process, whose threads are not counted as the sandbox's. */
export async function readLimitEvents(cgroup: Cgroup | null, runner: number): Promise<LimitEvents> {
  if (cgroup === null) return NO_LIMIT_EVENTS
  const count = async (file: string) => Number((await readCgroupFile(cgroup, 'pids', file)) || 0)
  const [kills, refusals, pids, peak, threads] = await Promise.all([
    readOomKills(cgroup),
    readPidRefusals(cgroup),
    count('pids.current'),
    count('pids.peak'),
    // A process that has just ended has no threads.
    readdir(`/proc/${runner}/task`).catch(() => []),
  ])
  const own = threads.length
  return { oomKills: kills, pidRefusals: refusals, pids: Math.max(0, pids - own), pidsPeak: Math.max(0, peak - own) }
}

/** How many processes the kernel killed because the memory limit was reached; null where nothing counts them. */
export async function readOomKills(cgroup: Cgroup | null): Promise<number | null> {
  if (cgroup === null) return null
  if (cgroup.version === 2) return field(await readCgroupFile(cgroup, 'memory', 'memory.events'), 'oom_kill')
  // v1 counts a kill only in the victim's own group, which is the one that a runtime other than crun makes inside the machine's.
  const [own, inner] = await Promise.all([
    readCgroupFile(cgroup, 'memory', 'memory.oom_control'),
    readCgroupFile(cgroup, 'memory', `${RUNTIME_GROUP}/memory.oom_control`),
  ])
  const count = field(own, 'oom_kill')
  return count === null ? null : count + (field(inner, 'oom_kill') ?? 0)
}

/** How often the kernel refused a new process or thread; null where nothing counts it. */
export async function readPidRefusals(cgroup: Cgroup | null): Promise<number | null> {
  if (cgroup === null) return null
  const inGroup = async (inner: string) => field(await readCgroupFile(cgroup, 'pids', `${inner}pids.events`), 'max')
  // Kernels differ in whether they count it in the group with the limit or in the group of the process.
  const [own, inner] = await Promise.all([inGroup(''), inGroup(`${RUNTIME_GROUP}/`)])
  return own === null ? null : own + (inner ?? 0)
}

/** Bytes of files that the machine has written and the kernel has not yet written to disk; 0 where nothing counts them. */
export async function readDirtyBytes(cgroup: Cgroup | null): Promise<number> {
  if (cgroup === null) return 0
  const stat = await readCgroupFile(cgroup, 'memory', 'memory.stat')
  const names = cgroup.version === 1 ? ['total_dirty', 'total_writeback'] : ['file_dirty', 'file_writeback']
  return names.reduce((sum, name) => sum + (field(stat, name) ?? 0), 0)
}

/** Microseconds of cpu time per period of 100 milliseconds; null where there is no limit. */
export async function readCpuQuotaUsec(cgroup: Cgroup): Promise<number | null> {
  const text = await readCgroupFile(cgroup, 'cpu', cgroup.version === 1 ? 'cpu.cfs_quota_us' : 'cpu.max')
  const quota = text.match(/^\d+/)?.[0]
  return quota === undefined ? null : Number(quota)
}

async function statsV1(cgroup: Cgroup): Promise<MachineStats> {
  const read = (controller: Controller, file: string) => readCgroupFile(cgroup, controller, file)
  const [cpu, used, stat, limit, peak, oom, pids, pidsMax] = await Promise.all([
    read('cpuacct', 'cpuacct.usage'),
    read('memory', 'memory.usage_in_bytes'),
    read('memory', 'memory.stat'),
    read('memory', 'memory.limit_in_bytes'),
    read('memory', 'memory.max_usage_in_bytes'),
    readOomKills(cgroup),
    read('pids', 'pids.current'),
    read('pids', 'pids.max'),
  ])
  return {
    cpuUsageUsec: Math.floor(Number(cpu) / 1000),
    // The kernel can drop cached files at will, so they do not count as used.
    memoryBytes: Math.max(0, Number(used) - (field(stat, 'total_inactive_file') ?? 0)),
    memoryLimit: bound(limit),
    memoryPeakBytes: bound(peak),
    oomKills: oom,
    pids: Number(pids),
    pidsLimit: sessionPids(bound(pidsMax)),
  }
}

async function statsV2(cgroup: Cgroup): Promise<MachineStats> {
  const read = (controller: Controller, file: string) => readCgroupFile(cgroup, controller, file)
  const [cpu, used, stat, limit, peak, events, pids, pidsMax] = await Promise.all([
    read('cpu', 'cpu.stat'),
    read('memory', 'memory.current'),
    read('memory', 'memory.stat'),
    read('memory', 'memory.max'),
    read('memory', 'memory.peak'),
    read('memory', 'memory.events'),
    read('pids', 'pids.current'),
    read('pids', 'pids.max'),
  ])
  return {
    cpuUsageUsec: field(cpu, 'usage_usec') ?? 0,
    memoryBytes: Math.max(0, Number(used) - (field(stat, 'inactive_file') ?? 0)),
    memoryLimit: bound(limit),
    memoryPeakBytes: bound(peak),
    oomKills: field(events, 'oom_kill'),
    pids: Number(pids),
    pidsLimit: sessionPids(bound(pidsMax)),
  }
}

function sessionPids(groupLimit: number | null): number | null {
  return groupLimit === null ? null : groupLimit - RUNNER_THREADS
}

/** Null for no limit: v2 says `max`, v1 a number near 2^63. */
function bound(text: string): number | null {
  const value = Number(text.trim() || Number.NaN)
  return Number.isFinite(value) && value < 2 ** 62 ? value : null
}
