// What the daemon asks of a backend: make a machine, hand over byte streams to the runner in it, end it.
// Shells, processes, files and ports are the runner's work and the same everywhere.
import type { Duplex } from 'node:stream'

export type LimitKind = 'cpu' | 'memory' | 'pids' | 'disk'

export interface MachineSpec {
  /** The session's id; also the machine's. */
  readonly id: string
  readonly name: string
  readonly image: string
  readonly cpuCores: number
  readonly memoryMb: number
  readonly diskMb: number
  readonly pidsLimit: number
  readonly readonlyRootfs: boolean
  /** Environment of every shell and process. SECURITY: values may be secret; they never reach argv, a log or a world-readable file. */
  readonly env: Readonly<Record<string, string>>
  /** Limits that the operator allows to go unenforced on this host. Any other that cannot be enforced makes start fail. */
  readonly allowUnenforced: readonly LimitKind[]
}

/** What this host can and cannot do, as `doctor` tells it. */
export interface Probe {
  readonly available: boolean
  /** Why not, when not available. */
  readonly why: string | null
  /** The command that would mend it. */
  readonly fix: string | null
  /** One line about what is used: the runtime and its version. */
  readonly detail: string
  /** Limits that cannot be enforced here; empty when all can. */
  readonly unenforceable: readonly LimitKind[]
  /** What works but is weaker than it could be, and what mends it. */
  readonly weaker: readonly { readonly what: string; readonly fix: string }[]
}

export interface MachineStats {
  readonly cpuUsageUsec: number
  readonly memoryBytes: number
  readonly memoryLimit: number | null
  readonly memoryPeakBytes: number | null
  readonly oomKills: number | null
  readonly pids: number
  readonly pidsLimit: number | null
}

/** Bytes of the host's disk that are free, and those that each session's disk may still take of them. */
export interface Room {
  readonly free: number
  readonly promised: ReadonlyMap<string, number>
}

export interface Backend {
  readonly name: string
  /** Cheap enough to call on every readiness check: what costs is remembered. */
  probe(): Promise<Probe>
  /** Makes an image ready to start from, or throws IMAGE_NOT_FOUND. */
  prepare(image: string, signal: AbortSignal): Promise<void>
  /**
   * Starts a machine, with the disk it had if it ran before. Resolves once the runner listens; limits were read back by then.
   * On failure or abort nothing is left of this attempt: a disk that existed before stays.
   */
  start(spec: MachineSpec, signal: AbortSignal): Promise<Machine>
  /** Finds machines that outlived the daemon and still run. */
  recover(): Promise<Machine[]>
  /** Absent where a session's files take no disk of the host. */
  room?(): Promise<Room>
  /** Ids of everything this backend holds for sessions: running, stopped, or left by a crash. */
  residents(): Promise<string[]>
  /** Ends whatever runs under this id and removes its disk and folder. Idempotent. */
  discard(id: string): Promise<void>
}

export interface Machine {
  readonly id: string
  /** The backend's own id for it. */
  readonly containerId: string
  /** What the runner's hello must carry. */
  readonly token: string
  /** Limits the operator allowed and this host does not enforce. */
  readonly unenforced: readonly LimitKind[]
  /** A fresh byte stream to the runner, before the hello. */
  dial(): Promise<Duplex>
  isRunning(): Promise<boolean>
  stats(): Promise<MachineStats>
  /** Why it is gone, in a sentence, when isRunning() says it is. */
  epitaph(): Promise<{ outOfMemory: boolean; text: string }>
  /** Absent where the technology cannot freeze. */
  pause?(): Promise<void>
  resume?(): Promise<void>
  /** Ends every process; files stay. Idempotent. */
  stop(): Promise<void>
  /** Ends everything and removes it. Idempotent. Resolves when processes, mounts, cgroups and files are gone. */
  destroy(): Promise<void>
}
