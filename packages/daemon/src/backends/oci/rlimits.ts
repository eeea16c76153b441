// Limits that the kernel keeps for each process, or each user of a sandbox. The launcher takes them on, and everything it starts has them.

/** The kernel's numbers, the same on x64 and arm64. */
const RESOURCES = { core: 4, processes: 6, openFiles: 7, queuedSignals: 11, messageQueues: 12 }
/** Queued signals and timers of one user. */
const QUEUED_SIGNALS = 1024

export interface Rlimit {
  readonly resource: number
  readonly limit: number
}

/** `processes`: of one user of the sandbox; null for no such limit. */
export function rlimits(openFiles: number, processes: number | null): Rlimit[] {
  return [
    { resource: RESOURCES.openFiles, limit: openFiles },
    ...(processes === null ? [] : [{ resource: RESOURCES.processes, limit: processes }]),
    { resource: RESOURCES.core, limit: 0 },
    { resource: RESOURCES.queuedSignals, limit: QUEUED_SIGNALS },
    { resource: RESOURCES.messageQueues, limit: 0 },
  ]
}
