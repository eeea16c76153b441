// What the daemon and the launcher (runner/cmd/launcher) say to each other, for the oci and the microvm backend. Both sides decode strictly:
// the Go side refuses unknown and missing fields, this side parses every result. runner/LAUNCHER.md describes who talks when;
// runner/testdata/launcher has an example of each document, which the tests of both sides read.
import { z } from 'zod'
import { ProcessState } from '../machine/process-state.ts'

const list = <T extends z.ZodType>(item: T) => z.array(item).readonly()
const paths = list(z.string())
/** A JSON object that the launcher passes on without reading it. */
const document = z.custom<object>(value => typeof value === 'object' && value !== null)
const Rlimit = z.strictObject({ resource: z.int(), limit: z.int() })
const Setting = z.strictObject({ file: z.string(), value: z.string() })
const Group = z.strictObject({
  dir: z.string(),
  name: z.string(),
  settings: list(Setting),
  thaw: Setting.optional(),
  devices: list(z.string()).optional(),
  enable: z.string().optional(),
  join: z.boolean(),
})
const HostFolder = z.strictObject({
  source: z.string(),
  target: z.string(),
  readonly: z.boolean(),
  uid: z.int(),
  gid: z.int(),
  point_uid: z.int(),
  point_gid: z.int(),
})
export type HostFolder = z.infer<typeof HostFolder>
const IdRange = z.strictObject({ inside: z.int(), outside: z.int(), size: z.int() })
const Stack = z.strictObject({ base: z.string(), names: paths, scratch: z.string(), user_xattrs: z.boolean() })
const Bind = z.strictObject({ path: z.string(), target: z.string(), readonly: z.boolean(), saved: z.boolean() })
export type Bind = z.infer<typeof Bind>
const Layer = z.strictObject({
  source: z.string(),
  target: z.string(),
  recursive: z.boolean(),
  upper: z.string().optional(),
  work: z.string().optional(),
  empty: z.string().optional(),
  stack: Stack.optional(),
})
export type Layer = z.infer<typeof Layer>
const DiskFolder = z.strictObject({ path: z.string(), uid: z.int(), gid: z.int(), mode: z.int() })
export type DiskFolder = z.infer<typeof DiskFolder>
const Disk = z.strictObject({
  image: z.string(),
  tmpfs_bytes: z.int(),
  restore: z.string(),
  template: z.string(),
  dirs: list(DiskFolder),
  files: list(z.strictObject({ path: z.string(), content: z.string() })),
  binds: list(Bind),
})
const RuntimePlan = z.strictObject({
  argv: list(z.string()),
  id: z.string(),
  folder: z.string(),
  private: z.boolean(),
  records: z.string(),
  hide_mounts: paths,
  protected: paths,
  open_files: z.int(),
  verify: z.boolean(),
  own_kernel: z.boolean(),
})
export type RuntimePlan = z.infer<typeof RuntimePlan>
const SocketFolder = z.strictObject({
  path: z.string(),
  name: z.string(),
  egress_name: z.string(),
  target: z.string(),
  owner: z.int(),
})
export type SocketFolder = z.infer<typeof SocketFolder>
/** A socket for the egress process. `owner` is the user id that may connect. */
const EgressSocket = z.strictObject({ path: z.string(), owner: z.int() })
export type EgressSocket = z.infer<typeof EgressSocket>
/** state.json of an oci machine: its first process, and the process that keeps a tmpfs alive. */
const OciState = z.strictObject({ ...ProcessState.shape, holder: ProcessState.strict().optional() })

export const Preparation = z.strictObject({
  groups: list(Group),
  home: paths,
  disk: z.strictObject({ template: z.string(), image: z.string(), target: z.string() }).nullable(),
  ids: list(IdRange),
  runtime: RuntimePlan.nullable(),
})
export type Preparation = z.infer<typeof Preparation>

/** One line of stdin of `launcher oci`. A prepare job may come before any other. */
export const OciJob = z.union([
  z.strictObject({ prepare: Preparation }),
  z.strictObject({
    start: z.strictObject({
      id: z.string(),
      runtime: RuntimePlan.nullable(),
      folder: z.string(),
      record: document,
      socket: z.string(),
      egress_socket: EgressSocket.nullable(),
      socket_folder: SocketFolder.nullable(),
      bundle: document,
      config: document,
      groups: list(Group),
      disk: Disk,
      rootfs: z.string(),
      layers: list(Layer),
      folders: list(HostFolder),
      ids: list(IdRange),
      users: z.string(),
      rlimits: list(Rlimit),
      boot_id: z.string(),
      want_filter: z.boolean(),
    }),
  }),
  z.strictObject({
    end: z.strictObject({
      id: z.string(),
      runtime: list(z.string()),
      records: z.string(),
      folder: z.string(),
      socket: z.string(),
      egress_socket: z.string(),
      socket_folder: z.string(),
      state: OciState.nullable(),
      hide_mounts: paths,
      groups: list(Group),
      image: z.string(),
      save_to: z.string(),
      binds: list(Bind),
    }),
  }),
  z.strictObject({ sweep: z.strictObject({ groups: list(Group) }) }),
  z.strictObject({ find: z.strictObject({ stack: Stack, folder: z.string(), paths }) }),
  z.strictObject({ resize: z.strictObject({ groups: list(Group), processes: z.int() }) }),
  z.strictObject({ probe: z.strictObject({ folder: z.string() }) }),
])
export type OciJob = z.infer<typeof OciJob>

/** Why this host does not have a feature; '' for one that it has. */
const Probed = z.strictObject({ mounts: z.string(), loop: z.string(), idmap: z.string(), overlay: z.string() })
export type Probed = z.infer<typeof Probed>

/** The one line of stdout of `launcher oci`. */
export const OciResult = z.strictObject({
  ok: z.boolean(),
  error: z.string().optional(),
  killed: z.boolean().optional().describe('a signal ended the runtime'),
  state: OciState.optional(),
  probed: Probed.optional(),
  found: z
    .record(
      z.string(),
      z.strictObject({
        kind: z.enum(['', 'file', 'folder', 'other']),
        path: z.string().optional(),
        content: z.base64().optional(),
        mode: z.int().optional(),
        uid: z.int().optional(),
        gid: z.int().optional(),
      }),
    )
    .optional(),
  filter: z.base64().optional().describe('the seccomp program that the runtime compiled'),
  phases: list(z.strictObject({ name: z.string(), usec: z.int() })).optional(),
})
export type OciResult = z.infer<typeof OciResult>

const Owner = z.strictObject({ uid: z.int(), gid: z.int() })
/** The one line of stdin of `launcher capture`. */
export const CaptureJob = z.strictObject({
  disk: z.strictObject({ image: z.string(), folder: z.string(), mount: z.string() }).nullable(),
  files: z
    .strictObject({
      stack: Stack,
      mount: z.string(),
      sources: paths,
      into: z.string(),
      into_folder: z.boolean(),
      parents: list(z.strictObject({ path: z.string(), mode: z.int(), ...Owner.shape })),
      owner: Owner.nullable(),
      mode: z.int().nullable(),
    })
    .nullable(),
  host: list(z.strictObject({ source: z.string(), target: z.string() })),
  ids: list(IdRange),
  excluded: paths,
  certificate: z.string(),
  max_entries: z.int(),
  max_bytes: z.int(),
})
export type CaptureJob = z.infer<typeof CaptureJob>

/** The last line of stderr of `launcher capture`; its stdout is a tar. */
export const CaptureResult = z.strictObject({
  ok: z.boolean(),
  code: z.enum(['invalid', 'too_many_entries', 'too_many_bytes', 'failed']).optional(),
  entry: z.string().optional(),
  issue: z.string().optional(),
  entries: z.int(),
  bytes: z.int(),
})
export type CaptureResult = z.infer<typeof CaptureResult>

/** The first line of stdin of `launcher supervise`. Descriptors of QEMU: files from 3 on, sockets, the egress socket, the tap of the bridge, shares. */
export const VmJob = z.strictObject({
  argv: list(z.string()),
  files: list(z.strictObject({ path: z.string(), write: z.boolean() })),
  sockets: paths,
  egress_socket: EgressSocket.nullable(),
  bridge: z.string(),
  shares: z
    .strictObject({
      path: z.string(),
      argv: list(z.string()),
      root_id: z.int(),
      user_id: z.int(),
      folders: list(HostFolder),
    })
    .optional(),
  share_socket: z.string(),
  log: z.string(),
  log_bytes: z.int(),
  jail: z.strictObject({ path: z.string(), id: z.int(), programs: paths, devices: paths }).optional(),
  groups: list(Group),
  rlimits: list(Rlimit),
})
export type VmJob = z.infer<typeof VmJob>

/** The one line of stdout of `launcher supervise`. */
export const VmResult = z.union([
  z.strictObject({ ok: z.literal(true), qemu: ProcessState.strict(), supervisor: ProcessState.strict() }),
  z.strictObject({ ok: z.literal(false), error: z.string() }),
])

/** The second line of stdin of `launcher supervise`: the machine outlives the daemon. */
export const RELEASE_LINE = 'release\n'

/** The one line of stdin of `launcher snapshot`. */
export const SnapshotJob = z.strictObject({ monitor: z.string(), file: z.string(), deadline_ms: z.int() })
export type SnapshotJob = z.infer<typeof SnapshotJob>
