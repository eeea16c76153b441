// A session: what creating one takes, and how it is shown.
import { z } from 'zod'
import { REASONS, SESSION_STATES } from '../tables/lifecycles.ts'
import { LIMITS } from '../tables/limits.ts'
import {
  Env,
  EnvVars,
  Labels,
  NullableLimitHit,
  queryBool,
  queryInt,
  SessionId,
  SessionName,
  SessionRef,
  Timestamp,
  withEnvAlias,
  within,
} from './primitives.ts'

export const Network = z
  .enum(['none', 'bridge'])
  .describe(
    'what the sandbox may reach: none is loopback only; bridge is a real interface, for docker and microvm where allow_bridge is set',
  )
export const BackendName = z
  .enum(['auto', 'oci', 'docker', 'microvm'])
  .describe('what makes the machine; auto picks the first of oci, docker and microvm that this host can run')
export const Mode = z
  .enum(['ephemeral', 'persistent'])
  .describe(
    'ephemeral: ends when it expires, and its files go; persistent: stops when it expires, and keeps its files until it is removed',
  )
export const OnExpiry = z
  .enum(['end', 'stop', 'pause'])
  .describe(
    'what happens when ttl_seconds have passed without use: end removes the files, stop ends the processes and keeps the files, pause freezes the processes; when absent end for an ephemeral session, stop for a persistent one',
  )

const AbsolutePath = z
  .string()
  .max(4096)
  .regex(/^\/[^\0]*$/, 'is not an absolute path')

export const HostMount = z.strictObject({
  source: AbsolutePath.describe('folder of the host'),
  target: AbsolutePath.describe('where the sandbox sees it'),
  readonly: z.boolean().default(true).describe('false makes it writable, where its files can be those of its owner'),
})

export const SessionSpec = withEnvAlias(
  z.strictObject({
    name: SessionName.optional().describe('human name, unique among sessions that have not ended; made up when absent'),
    image: z.string().min(1).max(512).optional().describe('image to start from; default_image when absent'),
    backend: BackendName.optional(),
    cpu_cores: within('cpu_cores').optional(),
    memory_mb: within('memory_mb').optional(),
    disk_mb: within('disk_mb').optional(),
    pids_limit: within('pids_limit').optional(),
    network: Network.optional(),
    readonly_rootfs: z
      .boolean()
      .optional()
      .describe(
        'read-only root filesystem; /workspace, /tmp and /home/sandbox stay writable. Without it, root inside reads what only root may read in the host’s /usr',
      ),
    runtime: z
      .string()
      .min(1)
      .max(64)
      .optional()
      .describe(
        'OCI runtime: crun, runc or one that backends.oci.runtimes names, or for docker one of backends.docker.runtimes; when absent backends.oci.runtime, or the engine’s own',
      ),
    nested_virt: z
      .boolean()
      .optional()
      .describe(
        'hardware virtualisation inside; microvm alone. Where the host has none, a session that names microvm is made without, any other is refused',
      ),
    mounts: z
      .array(HostMount)
      .max(16)
      .optional()
      .describe(
        'folder of the host to show in the sandbox, below the configured mount_roots; read-only unless it says otherwise',
      ),
    ttl_seconds: within('session_ttl_seconds')
      .nullable()
      .optional()
      .describe(`${LIMITS.session_ttl_seconds.about}; a persistent session may have none`),
    on_expiry: OnExpiry.optional(),
    timeout_sec: within('session_timeout_sec').nullable().optional(),
    persist: z.boolean().optional().describe('true is mode persistent: the files stay until the session is removed'),
    mode: Mode.optional(),
    agent_id: z
      .string()
      .min(1)
      .max(128)
      .optional()
      .describe(
        "the caller's name for the agent that uses the session, stored and shown; the name of a persistent session when absent",
      ),
    env: Env.optional(),
    env_vars: EnvVars,
    labels: Labels.optional(),
    start: z.boolean().optional().describe('false creates the session stopped'),
  }),
)
export type SessionSpec = Omit<z.infer<typeof SessionSpec>, 'env_vars'>

export const Session = z.object({
  id: SessionId,
  name: SessionName,
  template_id: z.string(),
  image: z.string(),
  backend: z.string(),
  container_id: z.string().nullable(),
  status: z.enum(SESSION_STATES),
  reason: z.enum(REASONS).describe('why the session is in this state'),
  error_message: z.string().nullable(),
  limit_hit: NullableLimitHit.describe('limit that ended the session; null for none'),
  mode: Mode,
  agent_id: z.string().nullable(),
  cwd: z.string().describe('working directory of the main shell after its last command'),
  cpu_cores: z.number(),
  memory_mb: z.int(),
  disk_mb: z.int(),
  pids_limit: z.int(),
  network: Network,
  readonly_rootfs: z.boolean(),
  runtime: z.string().nullable().describe('OCI runtime that was asked for; null for the choice of the configuration'),
  nested_virt: z.boolean(),
  mounts: z.array(z.object(HostMount.shape)).describe('folders of the host, where they really are'),
  unenforced: z.array(z.string()).describe('limits that this host cannot enforce and the configuration allows to go without'),
  env_names: z.array(z.string()).describe('names of the environment variables'),
  env: z.record(z.string(), z.string()).optional().describe('their values, where reveal_env asks for them'),
  labels: z.record(z.string(), z.string()),
  ttl_seconds: z.int().nullable().describe('null: it does not expire'),
  on_expiry: OnExpiry,
  timeout_sec: z.int().nullable(),
  created_at: Timestamp,
  started_at: Timestamp.nullable(),
  last_activity_at: Timestamp,
  expires_at: Timestamp.nullable().describe(
    'when a running or paused session expires, or ends by its timeout_sec, if it is not used; null for never',
  ),
  kept_until: Timestamp.nullable().describe(
    'when a stopped or failed session is removed with its files; null in other states and for persistent sessions, except a stopped one with timeout_sec',
  ),
  terminated_at: Timestamp.nullable(),
  delete_at: Timestamp.nullable(),
})
export type Session = z.infer<typeof Session>

export const SessionQuery = z.strictObject({
  status: z.enum(SESSION_STATES).optional(),
  name: z.string().max(64).optional(),
  label: z.string().max(400).optional().describe('name=value'),
  all: queryBool.optional().describe('also sessions that have ended'),
  limit: queryInt(LIMITS.list_page.min, LIMITS.list_page.max).optional(),
  offset: queryInt(0, 1_000_000_000).optional(),
  cursor: z.string().max(256).optional(),
})
export type SessionQuery = z.infer<typeof SessionQuery>

export const SessionList = z.object({
  items: z.array(Session),
  total: z.int(),
  limit: z.int(),
  offset: z.int(),
  next_cursor: z.string().nullable(),
})

export const PreparationQuery = z.strictObject({
  session: SessionRef.optional().describe('only what this session waits for'),
  idempotency_key: z.string().optional().describe('only what the create with this Idempotency-Key waits for'),
})
export type PreparationQuery = z.infer<typeof PreparationQuery>

const Preparation = z.object({
  session_id: z.string(),
  session_name: z.string(),
  backend: z.string(),
  image: z.string(),
  step: z.string().describe('what is being done, for people'),
  started_at: Timestamp,
})
export const PreparationList = z.object({ items: z.array(Preparation) })

export const RenewRequest = z.strictObject({
  ttl_seconds: within('session_ttl_seconds')
    .nullable()
    .optional()
    .describe('new ttl; null: none (persistent sessions only); unchanged when absent'),
})

export const ResizeRequest = z
  .strictObject({
    cpu_cores: within('cpu_cores').optional(),
    memory_mb: within('memory_mb').optional(),
    pids_limit: within('pids_limit').optional(),
  })
  .refine(r => Object.values(r).some(value => value !== undefined), 'give at least one of cpu_cores, memory_mb and pids_limit')
export type ResizeRequest = z.infer<typeof ResizeRequest>

export const SessionStats = z.object({
  cpu_usage_usec: z.int(),
  memory_bytes: z.int(),
  memory_limit: z.int().nullable(),
  memory_peak_bytes: z.int().nullable(),
  oom_kills: z.int().nullable(),
  pids: z.int(),
  pids_limit: z.int().nullable(),
  disk_used_bytes: z.int(),
  disk_limit_bytes: z.int(),
  shells: z.int(),
  processes: z.int(),
  uptime_ms: z.int(),
})
export type SessionStats = z.infer<typeof SessionStats>

export const Port = z.object({ port: z.int(), address: z.string(), pid: z.int().nullable(), command: z.string().nullable() })
export const PortList = z.object({ items: z.array(Port) })

export const SessionEventRecord = z.object({
  id: z.int(),
  session_id: SessionId,
  type: z.string().describe('session.<new state>'),
  status: z.enum(SESSION_STATES),
  reason: z.enum(REASONS),
  error_message: z.string().nullable(),
  created_at: Timestamp,
})
export type SessionEventRecord = z.infer<typeof SessionEventRecord>
