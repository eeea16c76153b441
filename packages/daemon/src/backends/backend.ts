// The interface of a backend. A backend starts and ends isolated machines, and gives byte streams to the runner in each.
// Shells, processes, files and ports are the runner's work and are the same on every backend.
//
// Folders: oci/, docker/ and microvm/ are the backends, plain-child/ is the test double, conformance/ is the suite that each of them passes.
// What they share: machine/ (session folders, paths, refusals), rootfs/ (what becomes `/`), isolation/ (seccomp, hidden paths, open files),
// cgroups/ and disk/.
import type { Duplex, Readable } from 'node:stream'
import type { Unpacked, UnpackLimits } from '../layers/layer-folders.ts'
import type { ImageBuild, LayerMaker } from './image-builds.ts'

export type LimitKind = 'cpu' | 'memory' | 'pids' | 'disk'

/** What becomes `/` of a machine. Plain data: another process may request the start. */
export type RootImage = { readonly kind: 'host' } | LayeredImage

/** An image of the image store. Its blobs stay in the store while a session uses it. */
export interface LayeredImage {
  readonly kind: 'layers'
  /** As the user named it, for messages. */
  readonly reference: string
  /** Digest of its configuration: the same image has the same id in every store and in every Docker engine. */
  readonly id: string
  /** Lowest first. */
  readonly layers: readonly ImageLayer[]
  /** Path of the file with its configuration, byte for byte as it was pulled or imported. */
  readonly config: string
  /** From the image's configuration. */
  readonly env: Readonly<Record<string, string>>
}

export interface ImageLayer {
  /** Digest of the uncompressed tar: images that share a layer share its diff id. */
  readonly diffId: string
  /** Path of the file with its tar, compressed as `compression` says. */
  readonly blob: string
  readonly compression: 'none' | 'gzip' | 'zstd'
}

/** The certificate authority of the egress process, whose certificates the programs of a machine accept. */
export interface TrustedCa {
  /** SHA-256 of the certificate's DER, in hex. */
  readonly fingerprint: string
  /** In PEM. */
  readonly certificate: string
}

/** A folder of the host that the operator's configuration allows sessions to mount. */
export interface HostMount {
  readonly source: string
  readonly target: string
  readonly readonly: boolean
}

/** A folder of the daemon with programs, which machines see read-only. Its content never changes. */
export interface MachinePackage {
  readonly name: string
  /** SHA-256 in hex: another content has another one. */
  readonly digest: string
  readonly folder: string
  /** Its path in the sandbox: a mount point that every root filesystem has. */
  readonly target: string
}

export interface MachineSpec {
  /** The session's id; also the machine's. */
  readonly id: string
  readonly name: string
  readonly image: RootImage
  /** Added to the certificates that the image trusts; null for a machine without egress, which sees the image unchanged. */
  readonly trust: TrustedCa | null
  readonly cpuCores: number
  readonly memoryMb: number
  readonly diskMb: number
  readonly pidsLimit: number
  readonly readonlyRootfs: boolean
  /** Name of the OCI runtime, one of those in the configuration; null for the backend's default. */
  readonly runtime: string | null
  /** `none` is loopback only; `bridge` is a network interface, which only docker and microvm support. */
  readonly network: 'none' | 'bridge'
  /** The egress process carries the connections of the machine to the network. The interface is still loopback only. */
  readonly egress: boolean
  readonly mounts: readonly HostMount[]
  readonly packages: readonly MachinePackage[]
  /** Offer hardware virtualisation inside. Requires a virtual machine and a host with KVM. */
  readonly nestedVirt: boolean
  /** The machine must support pause and resume. False accepts a machine that does not. */
  readonly canPause: boolean
  /** The machine runs a step of an image build: /tmp, /workspace and /home/sandbox are those of the image, and change with it. */
  readonly isBuild?: boolean
  /** The session outlives its machine. A backend may give weaker durability to a session that does not. */
  readonly persist: boolean
  /** Environment of every shell and process. SECURITY: values may be secret; they never reach argv, a log or a world-readable file. */
  readonly env: Readonly<Record<string, string>>
  /** Limits that the operator accepts without enforcement. Any other limit that this host cannot enforce makes start fail. */
  readonly allowUnenforced: readonly LimitKind[]
}

/** What the root filesystem of a machine is made from. */
export type MachineRoot = Pick<MachineSpec, 'image' | 'trust' | 'isBuild'> & { readonly packages?: MachineSpec['packages'] }

/** The limits that can change while a machine runs. */
export type MachineLimits = Pick<MachineSpec, 'cpuCores' | 'memoryMb' | 'pidsLimit'>

/** The parts of a spec that a host may be unable to provide, whatever the image. */
export type MachineRequirements = Pick<
  MachineSpec,
  'readonlyRootfs' | 'network' | 'mounts' | 'nestedVirt' | 'runtime' | 'canPause'
>

/** What this host can and cannot do, as `doctor` prints it. */
export interface Probe {
  readonly available: boolean
  /** The reason when it is not available. */
  readonly why: string | null
  /** The command that makes it available. */
  readonly fix: string | null
  /** One line: the runtime and its version. */
  readonly detail: string
  /** Limits that cannot be enforced on this host; empty when all can. */
  readonly unenforceable: readonly LimitKind[]
  /** The reason, where it is not a missing cgroup. */
  readonly unenforceableWhy?: string
  /** What makes them enforceable, where running as root is not enough. */
  readonly unenforceableFix?: string
  /** What works with weaker isolation or durability than possible, and how to change that. */
  readonly weaker: readonly { readonly what: string; readonly fix: string }[]
  /** The kernel that programs in the sandbox run on: the host's, or one of its own. */
  readonly kernel: 'shared' | 'own'
}

/** An OCI runtime that sessions may name, as `doctor` prints it. Without a version it cannot be used, and `why` has the reason. */
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

/** How often a machine has reached its limits since it started; null where nothing counts it. */
export interface LimitEvents {
  readonly oomKills: number | null
  readonly pidRefusals: number | null
  /** Processes and threads without the runner's own: current and highest. The kernel may refuse one user of a sandbox before the whole machine. */
  readonly pids: number | null
  readonly pidsPeak: number | null
}

/** Why a machine exited, as a sentence, and the limit that caused it. */
export interface MachineExit {
  readonly limit: 'memory_mb' | 'pids_limit' | null
  readonly text: string
}

/** The filesystem with the disks of sessions, in bytes. `promised` is by how much the disk of each session may still grow. */
export interface DiskSpace {
  readonly total: number
  readonly free: number
  readonly promised: ReadonlyMap<string, number>
}

/** One per technology, opened once by the daemon. Methods marked `?` are absent where the technology does not have the feature. */
export interface Backend {
  readonly name: string
  /**
   * Called by readiness checks, `doctor`, and placement before every create. Expensive results are cached, and trials that take seconds are
   * skipped unless `mayTakeSeconds`. Never throws for a host that cannot be used: `available` is false then.
   */
  probe(mayTakeSeconds?: boolean): Promise<Probe>
  /**
   * Called by placement before a session is stored, and by start. Throws UNSUPPORTED or BACKEND_UNAVAILABLE for a requirement that no machine
   * of this backend can meet on this host. Changes nothing. Absent where every requirement can be met.
   */
  checkRequirements?(requirements: MachineRequirements): Promise<void>
  /** Called by placement to fill in the default of `nestedVirt`. Absent where machines never have nested virtualisation. */
  hasNested?(): Promise<boolean>
  /** Called by `doctor`. Absent where a session cannot choose a runtime. */
  runtimes?(): Promise<readonly RuntimeReport[]>
  /**
   * Makes a root filesystem ready to start from. Called by create and start before the machine is started; returns quickly when it is ready already.
   * `report` is called with a line for each slow step. A failure or abort leaves no partial image that a later call would use.
   */
  prepare(root: MachineRoot, signal: AbortSignal, report?: (step: string) => void): Promise<void>
  /**
   * Unpacks a layer while a pull downloads it, so that prepare finds it unpacked. `image` is for messages. The tar stream fails instead of
   * ending when its content does not match the diff id; nothing of the layer is kept then. Absent where images are made from their blobs.
   */
  receiveLayer?(image: string, diffId: string, tar: Readable, limits: UnpackLimits, signal: AbortSignal): Promise<Unpacked>
  /**
   * Removes everything derived from images other than `kept`. Called when images are removed and when the daemon starts. `arriving` are digests
   * of layers that a pull or import is about to use. `trust` is the certificate authority of this daemon: what was made for another one is removed
   * too; without it, everything derived from `kept` stays. Absent where nothing is derived from images.
   */
  pruneImages?(kept: readonly LayeredImage[], arriving: ReadonlySet<string>, trust?: TrustedCa): Promise<void>
  /**
   * Builds an image and passes it to `take` in the format of `docker save`. Called by image builds. After a failure or abort no step of the build
   * runs any more; IMAGE_BUILD_FAILED names the step. Absent where nothing can build.
   */
  buildImage?<T>(build: ImageBuild, take: (archive: Readable) => Promise<T>, signal: AbortSignal): Promise<T>
  /** Present where builds without an engine can run. */
  readonly layers?: LayerMaker
  /**
   * Starts a machine, with its existing disk if it ran before. Called by create and start, once at a time per id. Resolves when the runner listens
   * and the limits have been read back. A failure or abort removes everything of this attempt, except a disk that existed before and the boot
   * log of a failure, which stay until discard.
   */
  start(spec: MachineSpec, signal: AbortSignal): Promise<Machine>
  /** Finds machines that are still running from an earlier daemon. Called when a daemon starts, and again after it has failed. */
  recover(): Promise<Machine[]>
  /**
   * Disk space for admission control and for the watch on full disks. Cached for a few seconds; `isFresh` bypasses the cache. Absent where
   * the files of sessions are not on the daemon's own disk.
   */
  diskSpace?(isFresh?: boolean): Promise<DiskSpace>
  /** Ids of all sessions of which this backend has anything: a running machine, a disk, or the rest of a crash. Called when a daemon starts. */
  sessionIds(): Promise<string[]>
  /** What the machine printed while it last started, for `GET …/logs`; null when nothing was printed or it is gone. The caller reads or destroys it. */
  bootLog(id: string): Promise<Readable | null>
  /** Ends whatever runs under this id and removes its disk and folder. Idempotent. Called when a session ends; a failure can be retried. */
  discard(id: string): Promise<void>
  /** Ends background work of the backend when the daemon shuts down. Machines keep running. Absent where there is no such work. */
  close?(): Promise<void>
}

/**
 * How the egress process reaches the runner of a machine: it dials a socket for each connection, it has one carrier for all of them, or the daemon
 * relays a stream of type `egress` of its own link. Paths are those of the daemon; machine/egress-endpoint.ts says how the egress process uses them.
 */
export type EgressEndpoint =
  | { readonly kind: 'socket'; readonly path: string }
  | { readonly kind: 'carrier'; readonly path: string }
  | { readonly kind: 'relay' }

export interface MachineEgress {
  /** The secret for the hello on the endpoint. SECURITY: it permits the requests of the egress process and nothing else. */
  readonly token: string
  readonly endpoint: EgressEndpoint
}

/** One running machine. It stays valid after the machine has exited; calls then fail or report that it is gone. */
export interface Machine {
  readonly id: string
  /** The backend's own id for it. */
  readonly containerId: string
  /** The secret that the daemon sends to the runner in its hello. */
  readonly token: string
  /** Null for a machine that was started without egress. */
  readonly egress: MachineEgress | null
  /** Limits that this host does not enforce for the machine, with the operator's consent. */
  readonly unenforced: readonly LimitKind[]
  /** True where dialling is slow: one dialled connection carries all streams, and a later one replaces it. */
  readonly mux: boolean
  /** Opens a byte stream to the runner, before the hello. Called by the runner link. */
  dial(): Promise<Duplex>
  /** Called while the connection to the runner is broken. Throws when the backend cannot tell. */
  isRunning(): Promise<boolean>
  stats(): Promise<MachineStats>
  /** Called after every command that fails, to explain the failure, so it is faster than stats. */
  limitEvents(): Promise<LimitEvents>
  /** Open files that count against the host's pool; `withMapped` adds files that are only mapped. Absent where they are not the host's. */
  openFiles?(withMapped: boolean): Promise<number>
  /** Called once after isRunning() has returned false. */
  exitReason(): Promise<MachineExit>
  /** Sets limits and reads them back. Throws when the kernel did not accept one. Absent where limits are fixed at the start. */
  resize?(limits: MachineLimits): Promise<void>
  /** Bytes that the machine wrote and the host's kernel has not yet written to disk, also while paused. Absent where a paused machine keeps them. */
  dirtyBytes?(): Promise<number>
  /** Throws PAUSE_FAILED when it misses the deadline; the machine keeps running then. Absent where the technology cannot freeze. */
  pause?(deadlineMs?: number): Promise<void>
  resume?(): Promise<void>
  /** Ends every process and keeps the files. Idempotent. */
  stop(): Promise<void>
  /** Ends everything and removes it. Idempotent. Resolves when processes, mounts, cgroups and files are gone. */
  destroy(): Promise<void>
}
