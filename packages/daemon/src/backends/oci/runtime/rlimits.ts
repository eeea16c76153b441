// Resource limits (rlimits) of each process, or of each user of a sandbox. The launcher sets them on itself, and what it starts inherits them.

/** The kernel's numbers, the same on x64 and arm64, with their names. */
const RESOURCES = { core: 4, processes: 6, openFiles: 7, queuedSignals: 11, messageQueues: 12 }
const NAMES = new Map([
  [RESOURCES.core, 'RLIMIT_CORE'],
  [RESOURCES.processes, 'RLIMIT_NPROC'],
  [RESOURCES.openFiles, 'RLIMIT_NOFILE'],
  [RESOURCES.queuedSignals, 'RLIMIT_SIGPENDING'],
  [RESOURCES.messageQueues, 'RLIMIT_MSGQUEUE'],
])
/** Limit of queued signals and timers of one user. */
const QUEUED_SIGNALS = 1024

export interface Rlimit {
  readonly resource: number
  readonly limit: number
}

/** In the format of an OCI bundle. */
export interface NamedRlimit {
  readonly type: string
  readonly hard: number
  readonly soft: number
}

/** `processes` is the limit for one user of the sandbox; null for none. */
export function rlimits(openFiles: number, processes: number | null): Rlimit[] {
  return [
    { resource: RESOURCES.openFiles, limit: openFiles },
    ...(processes === null ? [] : [{ resource: RESOURCES.processes, limit: processes }]),
    { resource: RESOURCES.core, limit: 0 },
    { resource: RESOURCES.queuedSignals, limit: QUEUED_SIGNALS },
    { resource: RESOURCES.messageQueues, limit: 0 },
  ]
}

export function named(limits: readonly Rlimit[]): NamedRlimit[] {
  return limits.map(({ resource, limit }) => ({ type: NAMES.get(resource) ?? String(resource), hard: limit, soft: limit }))
}
