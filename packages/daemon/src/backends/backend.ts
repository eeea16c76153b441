// What the daemon asks of a backend: make a machine, hand over byte streams to the runner in it, end it.
// Shells, processes, files and ports are the runner's work and the same everywhere.
import type { Duplex, Readable } from 'node:stream'
import type { Unpacked, UnpackLimits } from '../layers/layer-folders.ts'

export type LimitKind = 'cpu' | 'memory' | 'pids' | 'disk'

/** What becomes `/` of a machine. Plain data: a start may be asked for by another process. */
export type RootImage = { readonly kind: 'host' } | LayeredImage

/** An image of the store. Its blobs stay while a session has it. */
export interface LayeredImage {
  readonly kind: 'layers'
  /** As the user named it, for messages. */
  readonly reference: string
  /** Digest of its configuration: the same image has the same id in every store and in every Docker engine. */
  readonly id: string
  /** Lowest first. */
  readonly layers: readonly ImageLayer[]
  /** File with its configuration, as it came. */
  readonly config: string
  /** From the image's configuration. */
  readonly env: Readonly<Record<string, string>>
}

export interface ImageLayer {
  /** Digest of the uncompressed tar: one layer of several images is one layer. */
  readonly diffId: string
  /** File with its tar, compressed as it came. */
  readonly blob: string
  readonly compression: 'none' | 'gzip' | 'zstd'
}

/** A folder of the host that the operator's configuration lets sessions see. */
export interface HostMount {
  readonly source: string
  readonly target: string
  readonly readonly: boolean
}

export interface MachineSpec {
  /** The session's id; also the machine's. */
  readonly id: string
  readonly name: string
  readonly image: RootImage
  readonly cpuCores: number
  readonly memoryMb: number
  readonly diskMb: number
  readonly pidsLimit: number
  readonly readonlyRootfs: boolean
  /** The OCI runtime that the session asks for, among those that the configuration names; null for the backend's own choice. */
  readonly runtime: string | null
  /** `none` is loopback alone; `bridge` is a real interface, which only docker and microvm have. */
  readonly network: 'none' | 'bridge'
  readonly mounts: readonly HostMount[]
  /** Offers hardware virtualisation inside, where the machine is a virtual one and the host has it. */
  readonly nestedVirt: boolean
  /** Whether the machine is asked to have pause and resume. One that cannot is refused; false leaves it to the host. */
  readonly canPause: boolean
  /** Whether the session is to outlive its machine: a backend may keep less of one that is not. */
  readonly persist: boolean
  /** Environment of every shell and process. SECURITY: values may be secret; they never reach argv, a log or a world-readable file. */
  readonly env: Readonly<Record<string, string>>
  /** Limits that the operator allows to go unenforced on this host. Any other that cannot be enforced makes start fail. */
  readonly allowUnenforced: readonly LimitKind[]
}

/** What can change while a machine runs. */
export type MachineLimits = Pick<MachineSpec, 'cpuCores' | 'memoryMb' | 'pidsLimit'>

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
  /** Why, where it is not for want of a cgroup. */
  readonly unenforceableWhy?: string
  /** What would let them be enforced, where it is more than being root. */
  readonly unenforceableFix?: string
  /** What works but is weaker than it could be, and what mends it. */
  readonly weaker: readonly { readonly what: string; readonly fix: string }[]
  /** Whose kernel the sandbox runs on: the host's, or one of its own. */
  readonly kernel: 'shared' | 'own'
}

/** An OCI runtime that sessions may ask for, as `doctor` tells of it. Without a version it cannot be used, and `why` says so. */
export interface RuntimeReport {
  readonly name: string
  readonly version: string | null
  readonly why: string | null
  readonly fix: string | null
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

/** How often a machine reached its limits so far; null where nothing counts it. */
export interface LimitEvents {
  readonly oomKills: number | null
  readonly pidRefusals: number | null
  /** Processes and threads without the runner's own, now and at most so far. One user of a sandbox may be refused more before the machine is. */
  readonly pids: number | null
  readonly pidsPeak: number | null
}

/** Why a machine is gone, in a sentence, and the limit that ended it. */
export interface Epitaph {
  readonly limit: 'memory_mb' | 'pids_limit' | null
  readonly text: string
}

/** The filesystem with the disks of sessions, in bytes: its size, what is free, and by how much each session's disk may still grow. */
export interface Room {
  readonly total: number
  readonly free: number
  readonly promised: ReadonlyMap<string, number>
}

/** What is asked of a machine that a host may not be able to give at all, whatever the image. */
export type MachineWishes = Pick<MachineSpec, 'readonlyRootfs' | 'network' | 'mounts' | 'nestedVirt' | 'runtime' | 'canPause'>

/** A Dockerfile and what belongs to it. */
export interface ImageBuild {
  /** For messages. */
  readonly name: string
  /** What FROM and COPY --from lead to. SECURITY: the builder looks for no other image. */
  readonly bases: readonly LayeredImage[]
  /** The text, with these names in place of the bases', in their order. */
  dockerfile(names: readonly string[]): string
  /** File with its files as a tar, of which the first `bytes` are everything but its end; null for a build without files. */
  readonly context: { readonly path: string; readonly bytes: number } | null
  /** Text of the .dockerignore among them. */
  readonly dockerignore: string | undefined
  readonly buildArgs: Readonly<Record<string, string>>
  readonly network: 'none' | 'default' | 'host'
  /** Of each step. */
  readonly memoryMb: number
  readonly cpuCores: number
  /** Steps of earlier builds that are not older may be used again; null for none. */
  readonly maxCacheAgeMs: number | null
  /** Whether a later build may use steps of this one. */
  readonly keepsCache: boolean
  /** Told once when a step begins, and again if it need not be run. */
  readonly onStep: (step: { step: number; steps: number; instruction: string; cached: boolean }) => void
  /** Whole lines. */
  readonly onOutput: (text: string) => void
}

export interface Backend {
  readonly name: string
  /** Cheap enough to call on every readiness check: what costs is remembered, and what takes seconds is left out unless `mayTakeSeconds`. */
  probe(mayTakeSeconds?: boolean): Promise<Probe>
  /** Throws for a wish that no machine here can have, so that no session is made with it; start throws the same. Absent where there is none. */
  refuse?(wishes: MachineWishes): Promise<void>
  /** Whether its machines can have machines of their own on this host; absent where they never can. */
  hasNested?(): Promise<boolean>
  /** Absent where a session cannot choose one. */
  runtimes?(): Promise<readonly RuntimeReport[]>
  /** Makes an image ready to start from; quick when it is. `say` is told of each step that takes long. */
  prepare(image: RootImage, signal: AbortSignal, say?: (step: string) => void): Promise<void>
  /**
   * Takes in a layer of the image with this name while it arrives, so that prepare finds it there; absent where images are made from their
   * blobs. The tar fails instead of ending when it is not what its diff id says, and nothing is kept of it then.
   */
  receiveLayer?(image: string, diffId: string, tar: Readable, limits: UnpackLimits, signal: AbortSignal): Promise<Unpacked>
  /** Removes what it has made of other images than these. `held` are digests that one on its way has. Absent where it makes nothing of images. */
  pruneImages?(kept: readonly LayeredImage[], held: ReadonlySet<string>): Promise<void>
  /**
   * Builds an image, and gives it to `take` as docker save would write it. On failure or abort no step of it runs any more. IMAGE_BUILD_FAILED
   * tells the step. Absent where nothing can build.
   */
  buildImage?<T>(build: ImageBuild, take: (archive: Readable) => Promise<T>, signal: AbortSignal): Promise<T>
  /**
   * Starts a machine, with the disk it had if it ran before. Resolves once the runner listens; limits were read back by then.
   * On failure or abort nothing is left of this attempt: a disk that existed before stays, and so may the log of a failure, until discard.
   */
  start(spec: MachineSpec, signal: AbortSignal): Promise<Machine>
  /** Finds machines that outlived the daemon and still run. */
  recover(): Promise<Machine[]>
  /** Absent where a session's files take no disk of the host. Cached for a few seconds; `isFresh` bypasses the cache. */
  room?(isFresh?: boolean): Promise<Room>
  /** Ids of everything this backend holds for sessions: running, stopped, or left by a crash. */
  residents(): Promise<string[]>
  /** What the machine printed while it last started, for `GET …/logs`; null when nothing was printed or it is gone. The caller reads or destroys it. */
  bootLog(id: string): Promise<Readable | null>
  /** Ends whatever runs under this id and removes its disk and folder. Idempotent. */
  discard(id: string): Promise<void>
  /** Ends what it does in the background; machines run on. Absent where it does nothing there. */
  close?(): Promise<void>
}

export interface Machine {
  readonly id: string
  /** The backend's own id for it. */
  readonly containerId: string
  /** What the runner's hello must carry. */
  readonly token: string
  /** Limits the operator allowed and this host does not enforce. */
  readonly unenforced: readonly LimitKind[]
  /** True where dialling is slow: dial() gives a carrier for all streams, and a later one takes the place of an earlier. */
  readonly mux: boolean
  /** A fresh byte stream to the runner, before the hello. */
  dial(): Promise<Duplex>
  isRunning(): Promise<boolean>
  stats(): Promise<MachineStats>
  /** Quicker than stats: asked after every command that failed. */
  limitEvents(): Promise<LimitEvents>
  /** Files of the host's pool that it holds; `withMapped`: also those that are only mapped. Absent where its files are not the host's. */
  openFiles?(withMapped: boolean): Promise<number>
  /** Asked when isRunning() says that it is gone. */
  epitaph(): Promise<Epitaph>
  /** Sets limits and reads them back; throws where one did not take. Absent where they are fixed when it starts. */
  resize?(limits: MachineLimits): Promise<void>
  /** Bytes in the host's memory that are still to be written to its disk, paused or not. Absent where a pause keeps them in the machine. */
  unwritten?(): Promise<number>
  /** Throws when it did not stop in time. Absent where the technology cannot freeze. */
  pause?(deadlineMs?: number): Promise<void>
  resume?(): Promise<void>
  /** Ends every process; files stay. Idempotent. */
  stop(): Promise<void>
  /** Ends everything and removes it. Idempotent. Resolves when processes, mounts, cgroups and files are gone. */
  destroy(): Promise<void>
}
