// Limits that this host cannot enforce: those that the operator allows to go without, or a refusal.
import { SandglassError } from '@sandglass/contract/tables'
import type { LimitKind, Probe } from '../backend.ts'

export const NO_CGROUP = 'the daemon has no cgroup that it may write to'

export function unenforced(backend: string, probe: Probe, allowed: readonly LimitKind[]): readonly LimitKind[] {
  const limits = probe.unenforceable.filter(limit => !allowed.includes(limit))
  if (limits.length === 0) return probe.unenforceable
  const why = probe.unenforceableWhy ?? NO_CGROUP
  // The list in the configuration is replaced as a whole: what was accepted before belongs to it.
  throw new SandglassError('LIMIT_UNENFORCEABLE', { backend, limits, why, accept: [...new Set([...allowed, ...limits])] })
}
