// A limit that a session reached, and its description for users.

export const LIMITS_HIT = ['memory_mb', 'pids_limit', 'disk_mb'] as const
export type LimitHit = { limit: (typeof LIMITS_HIT)[number]; value: number }

/** The predicate of a sentence whose subject is the session. */
export function limitText({ limit, value }: LimitHit): string {
  if (limit === 'memory_mb') return `reached its memory limit of ${value} MiB, and the kernel killed a process in it`
  if (limit === 'pids_limit') return `reached its limit of ${value} processes and threads`
  return `filled its disk of ${value} MiB`
}
