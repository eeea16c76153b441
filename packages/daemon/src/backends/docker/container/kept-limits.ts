// Whether a container has the limits that were asked for, as the engine shows it.
import type Docker from 'dockerode'
import type { LimitKind, MachineSpec, Probe } from '../../backend.ts'
import { unenforced } from '../../machine/unenforced.ts'
import type { Shown } from '../machine.ts'
import { readStats } from './read-stats.ts'

const MiB = 1024 * 1024
/** The engine's own, whose limits are the kernel's cgroups. */
const OWN = ['runc', 'crun', 'io.containerd.runc.v2']

/**
 * Limits that a machine goes without, or a refusal. SECURITY: a runtime may take a limit and forget it, as Kata Containers 1 does with the number of
 * processes. What the engine does not show is not kept.
 */
export async function unkept(container: Docker.Container, shown: Shown, spec: MachineSpec, probe: Probe): Promise<LimitKind[]> {
  const { Runtime: runtime = '' } = shown.HostConfig
  if (OWN.includes(runtime)) return [...unenforced('docker', probe, spec.allowUnenforced)]
  const { memoryLimit, pidsLimit } = await readStats(container, null)
  const unenforceable = new Set(probe.unenforceable)
  // It may be less: no more than the machine has.
  if (memoryLimit === null || memoryLimit > spec.memoryMb * MiB) unenforceable.add('memory')
  if (pidsLimit === null || pidsLimit > spec.pidsLimit) unenforceable.add('pids')
  const unenforceableWhy = `with its runtime ${runtime} the engine shows no such limit`
  return [...unenforced('docker', { ...probe, unenforceable: [...unenforceable], unenforceableWhy }, spec.allowUnenforced)]
}
