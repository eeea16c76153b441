// What the groups of one machine count.
import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import type { MachineStats } from '../backend.ts'
import { RUNNER_THREADS } from '../machine/runner-config.ts'
import { type CgroupLayout, type Controller, RUNTIME_GROUP } from './layout.ts'

const NO_STATS: MachineStats = {
  cpuUsageUsec: 0,
  memoryBytes: 0,
  memoryLimit: null,
  memoryPeakBytes: null,
  oomKills: null,
  pids: 0,
  pidsLimit: null,
}

/** What a machine uses; zeros and nulls where there is no cgroup that counts it. */
export async function readStats(layout: CgroupLayout | null, parent: string, group: string): Promise<MachineStats> {
  if (layout === null) return NO_STATS
  const read = (controller: Controller, file: string) => readIn(layout, parent, group, controller, file)
  return layout.version === 1 ? await statsV1(read) : await statsV2(read)
}

/** Bytes of files that the machine has written and the kernel still holds in memory; 0 where nothing counts them. */
export async function unwrittenBytes(layout: CgroupLayout | null, parent: string, group: string): Promise<number> {
  if (layout === null) return 0
  const stat = await readIn(layout, parent, group, 'memory', 'memory.stat')
  const names = layout.version === 1 ? ['total_dirty', 'total_writeback'] : ['file_dirty', 'file_writeback']
  return names.reduce((sum, name) => sum + (field(stat, name) ?? 0), 0)
}

// v1 counts a kill in the victim's own group alone, which is the one that a runtime other than crun makes inside the machine's.
export async function countOomKills(version: 1 | 2, read: Read): Promise<number | null> {
  if (version === 2) return field(await read('memory', 'memory.events'), 'oom_kill')
  const [own, inner] = await Promise.all([
    read('memory', 'memory.oom_control'),
    read('memory', `${RUNTIME_GROUP}/memory.oom_control`),
  ])
  const count = field(own, 'oom_kill')
  return count === null ? null : count + (field(inner, 'oom_kill') ?? 0)
}

type Read = (controller: Controller, file: string) => Promise<string>

async function statsV1(read: Read): Promise<MachineStats> {
  const [cpu, used, stat, limit, peak, oom, pids, pidsMax] = await Promise.all([
    read('cpuacct', 'cpuacct.usage'),
    read('memory', 'memory.usage_in_bytes'),
    read('memory', 'memory.stat'),
    read('memory', 'memory.limit_in_bytes'),
    read('memory', 'memory.max_usage_in_bytes'),
    countOomKills(1, read),
    read('pids', 'pids.current'),
    read('pids', 'pids.max'),
  ])
  return {
    cpuUsageUsec: Math.floor(Number(cpu) / 1000),
    // Cached files that the kernel can drop at will are not use.
    memoryBytes: Math.max(0, Number(used) - (field(stat, 'total_inactive_file') ?? 0)),
    memoryLimit: bound(limit),
    memoryPeakBytes: bound(peak),
    oomKills: oom,
    pids: Number(pids),
    pidsLimit: sessionPids(bound(pidsMax)),
  }
}

async function statsV2(read: Read): Promise<MachineStats> {
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

/** '' when the file is not there: kernels differ in which they have, and the machine may just have ended. */
export async function readIn(
  layout: CgroupLayout,
  parent: string,
  group: string,
  controller: Controller,
  file: string,
): Promise<string> {
  const root = layout.roots[controller]
  if (root === undefined) return ''
  return await readFile(join(root, parent, group, file), 'utf8').catch(() => '')
}

export function field(text: string, name: string): number | null {
  const value = text
    .split('\n')
    .find(line => line.startsWith(`${name} `))
    ?.split(' ')[1]
  return value === undefined ? null : Number(value)
}

function sessionPids(groupLimit: number | null): number | null {
  return groupLimit === null ? null : groupLimit - RUNNER_THREADS
}

/** A number, or null for none: v2 says max, v1 a number near 2^63. */
function bound(text: string): number | null {
  const value = Number(text.trim() || Number.NaN)
  return Number.isFinite(value) && value < 2 ** 62 ? value : null
}
