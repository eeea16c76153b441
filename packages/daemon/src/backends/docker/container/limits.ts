// The limits and the usage of a container: set through the engine, read back from the engine or from the container's cgroup.
import { SandglassError } from '@sandglass/contract/tables'
import type Docker from 'dockerode'
import type { LimitKind, MachineLimits, MachineSpec, MachineStats, Probe } from '../../backend.ts'
import { cgroupOfProcess } from '../../cgroups/cgroup.ts'
import { readCpuQuotaUsec } from '../../cgroups/usage.ts'
import { acceptedUnenforced } from '../../machine/refusals.ts'
import { RUNNER_THREADS } from '../../machine/runner-config.ts'
import { engineMessage } from '../engine/engine.ts'
import type { ContainerInfo } from './containers.ts'

const MiB = 1024 * 1024
const CPU_PERIOD_USEC = 100_000
/** Runtimes that leave limits to the kernel's cgroups. */
const CGROUP_RUNTIMES = ['runc', 'crun', 'io.containerd.runc.v2']

/** Limits as fields of the engine's API. */
export function resources({ memoryMb, cpuCores, pidsLimit }: MachineLimits) {
  return { Memory: memoryMb * MiB, NanoCpus: Math.round(cpuCores * 1e9), PidsLimit: pidsLimit + RUNNER_THREADS }
}

/** `pid` is a process of the container, or null where the engine is on another machine. */
export async function resize(container: Docker.Container, limits: MachineLimits, pid: number | null): Promise<void> {
  const { Memory, NanoCpus, PidsLimit } = resources(limits)
  try {
    await container.update({ Memory, MemorySwap: Memory, NanoCpus, PidsLimit })
  } catch (error) {
    throw new SandglassError('BACKEND_UNAVAILABLE', { backend: 'docker', why: engineMessage(error) }, { cause: error })
  }
  const [{ HostConfig }, stats] = await Promise.all([container.inspect(), readStats(container, null)])
  // SECURITY: an engine may accept a limit that the kernel does not. The cpu quota is read from the kernel where that is this machine's.
  const cpuCores =
    pid === null
      ? (HostConfig.NanoCpus ?? 0) / 1e9
      : ((await readCpuQuotaUsec(await cgroupOfProcess(pid))) ?? 0) / CPU_PERIOD_USEC
  const actual = { memoryMb: (stats.memoryLimit ?? 0) / MiB, pidsLimit: stats.pidsLimit, cpuCores }
  for (const name of ['memoryMb', 'pidsLimit', 'cpuCores'] as const)
    if (actual[name] !== limits[name]) throw new Error(`${name} is ${actual[name]} after ${limits[name]} was set`)
}

/**
 * The limits that a started container does not have. Throws LIMIT_UNENFORCEABLE unless the operator accepts each of them. SECURITY: a runtime may
 * accept a limit and ignore it, as Kata Containers 1 does with the number of processes. A limit that the engine does not show is not enforced.
 */
export async function missingLimits(
  container: Docker.Container,
  info: ContainerInfo,
  spec: MachineSpec,
  probe: Probe,
): Promise<LimitKind[]> {
  const { Runtime: runtime = '' } = info.HostConfig
  if (CGROUP_RUNTIMES.includes(runtime)) return [...acceptedUnenforced('docker', probe, spec.allowUnenforced)]
  const { memoryLimit, pidsLimit } = await readStats(container, null)
  const unenforceable = new Set(probe.unenforceable)
  // It may be lower, because the engine caps it at the memory of its machine.
  if (memoryLimit === null || memoryLimit > spec.memoryMb * MiB) unenforceable.add('memory')
  if (pidsLimit === null || pidsLimit > spec.pidsLimit) unenforceable.add('pids')
  const unenforceableWhy = `with its runtime ${runtime} the engine shows no such limit`
  const found = { ...probe, unenforceable: [...unenforceable], unenforceableWhy }
  return [...acceptedUnenforced('docker', found, spec.allowUnenforced)]
}

/** Usage as the engine measures it, which does not count `oomKills`. */
export async function readStats(container: Docker.Container, oomKills: number | null): Promise<MachineStats> {
  const stats = await container.stats({ stream: false, 'one-shot': true })
  const { cpu_stats: cpu, memory_stats: memory, pids_stats: pids = {} } = stats
  // The kernel can drop cached files at will, so they do not count as used.
  const cache = memory.stats?.total_inactive_file ?? memory.stats?.inactive_file ?? 0
  return {
    cpuUsageUsec: Math.floor((cpu.cpu_usage?.total_usage ?? 0) / 1000),
    memoryBytes: Math.max(0, (memory.usage ?? 0) - cache),
    memoryLimit: memory.limit ?? null,
    memoryPeakBytes: memory.max_usage ?? null,
    oomKills,
    pids: pids.current ?? 0,
    pidsLimit: pids.limit === undefined ? null : pids.limit - RUNNER_THREADS,
  }
}
