// Other limits for a container that runs.
import { SandglassError } from '@sandglass/contract/tables'
import type Docker from 'dockerode'
import type { MachineLimits } from '../../backend.ts'
import { RUNNER_THREADS } from '../../machine/runner-config.ts'
import { engineSays } from '../engine/engine.ts'
import { cpuQuotaUsec } from './cgroups.ts'
import { readStats } from './read-stats.ts'

const MiB = 1024 * 1024
const CPU_PERIOD_USEC = 100_000

/** `pid` is a process of the container, or null where the engine is on another machine. */
export async function resize(container: Docker.Container, limits: MachineLimits, pid: number | null): Promise<void> {
  const { Memory, NanoCpus, PidsLimit } = resources(limits)
  try {
    await container.update({ Memory, MemorySwap: Memory, NanoCpus, PidsLimit })
  } catch (error) {
    throw new SandglassError('BACKEND_UNAVAILABLE', { backend: 'docker', why: engineSays(error) }, { cause: error })
  }
  const [{ HostConfig }, stats] = await Promise.all([container.inspect(), readStats(container, null)])
  // SECURITY: an engine may take a limit that the kernel does not keep. The processor's is read where the kernel is this machine's.
  const quota = pid === null ? (HostConfig.NanoCpus ?? 0) / 1e9 : ((await cpuQuotaUsec(pid)) ?? 0) / CPU_PERIOD_USEC
  const kept = { memoryMb: (stats.memoryLimit ?? 0) / MiB, pidsLimit: stats.pidsLimit, cpuCores: quota }
  for (const name of ['memoryMb', 'pidsLimit', 'cpuCores'] as const)
    if (kept[name] !== limits[name]) throw new Error(`${name} is ${kept[name]} after ${limits[name]} was set`)
}

/** As the engine takes them. */
export function resources({ memoryMb, cpuCores, pidsLimit }: MachineLimits) {
  return { Memory: memoryMb * MiB, NanoCpus: Math.round(cpuCores * 1e9), PidsLimit: pidsLimit + RUNNER_THREADS }
}
