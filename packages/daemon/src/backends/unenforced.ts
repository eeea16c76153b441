// Limits that this host cannot enforce: those that the operator allows to go without, or a refusal.
import { SandglassError } from '@sandglass/contract/tables'
import type { LimitKind, Probe } from './backend.ts'

export const NO_CGROUP = 'the daemon has no cgroup that it may write to'

export function unenforced(backend: string, probe: Probe, allowed: readonly LimitKind[]): readonly LimitKind[] {
  const limits = probe.unenforceable.filter(limit => !allowed.includes(limit))
  if (limits.length === 0) return probe.unenforceable
  const why = probe.unenforceableWhy ?? NO_CGROUP
  throw new SandglassError('LIMIT_UNENFORCEABLE', { backend, limits, why })
}
