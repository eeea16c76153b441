// The errors with which a backend refuses a machine: a feature that it does not have, or a limit that it cannot enforce.
import { SandglassError } from '@sandglass/contract/tables'
import type { LimitKind, Probe } from '../backend.ts'

export const NO_CGROUP = 'the daemon has no cgroup that it may write to'

/** `next` says what to do instead: another flag, the configuration, or a change of the host. */
export function unsupported(what: string, next?: string): SandglassError<'UNSUPPORTED'> {
  return new SandglassError('UNSUPPORTED', next === undefined ? { what } : { what, next })
}

/** The limits that a machine goes without. Throws LIMIT_UNENFORCEABLE unless the operator accepts each of them. */
export function acceptedUnenforced(backend: string, probe: Probe, accepted: readonly LimitKind[]): readonly LimitKind[] {
  const limits = probe.unenforceable.filter(limit => !accepted.includes(limit))
  if (limits.length === 0) return probe.unenforceable
  const why = probe.unenforceableWhy ?? NO_CGROUP
  // The list in the configuration replaces the one before, so the suggestion repeats the limits that are accepted already.
  throw new SandglassError('LIMIT_UNENFORCEABLE', { backend, limits, why, accept: [...new Set([...accepted, ...limits])] })
}
