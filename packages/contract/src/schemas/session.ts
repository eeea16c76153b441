// Sessions: the spec of a new one, and its form in replies.
import { z } from 'zod'
import { AGENTS } from '../tables/agents.ts'
import { REASONS, SESSION_STATES } from '../tables/lifecycles.ts'
import { LIMITS } from '../tables/limits.ts'
import { NETWORKS } from '../tables/network.ts'
import { PolicyMode, PolicyName } from './policies.ts'
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
import { SecretName } from './secrets.ts'

export const Network = z
  .enum(NETWORKS)
  .describe(
    'network of the sandbox: none has loopback only; allowlist reaches what the policies allow; nat reaches every public host on ports 80 and 443; bridge adds an interface on a bridge, which no policy controls, on docker and microvm if allow_bridge is set',
  )
export type Network = z.infer<typeof Network>
export const BackendName = z
  .enum(['auto', 'oci', 'docker', 'microvm'])
  .describe('technology of the sandbox; auto picks the first of oci, docker and microvm that works on this host')
export const Mode = z
  .enum(['ephemeral', 'persistent'])
  .describe(
    'ephemeral: ends with its files when it expires; persistent: stops when it expires and keeps its files until it is removed',
  )
export const OnExpiry = z
  .enum(['end', 'stop', 'pause'])
  .describe(
    'action after ttl_seconds without use: end removes the files, stop ends the processes and keeps the files, pause freezes the processes; when absent: end for an ephemeral session, stop for a persistent one',
  )

const Agents = z.array(z.enum(AGENTS)).max(AGENTS.length)

const AbsolutePath = z
  .string()
  .max(4096)
  .regex(/^\/[^\0]*$/, 'is not an absolute path')

export const HostMount = z.strictObject({
  source: AbsolutePath.describe('host folder'),
  target: AbsolutePath.describe('path in the sandbox'),
  readonly: z.boolean().default(true).describe('false makes it writable, on backends that can map the owner of its files'),
})

export const SessionSpec = withEnvAlias(
  z.strictObject({
    name: SessionName.optional().describe('name, unique among sessions that have not ended; generated when absent'),
    image: z.string().min(1).max(512).optional().describe('image to start from; default_image when absent'),
    backend: BackendName.optional(),
    cpu_cores: within('cpu_cores').optional(),
    memory_mb: within('memory_mb').optional(),
    disk_mb: within('disk_mb').optional(),
    pids_limit: within('pids_limit').optional(),
    network: Network.optional(),
    policies: z
      .array(PolicyName)
      .max(LIMITS.policies_per_session.max)
      .optional()
      .describe('policy that says what the session may reach, stored or ready-made; implies network allowlist'),
    policy_mode: PolicyMode.optional().describe('mode of the session, instead of that of its policies'),
    secrets: z
      .array(SecretName)
      .max(LIMITS.secrets_per_session.max)
      .optional()
      .describe('secret that the session may use: it sees a surrogate, and the real value is inserted on the way to the host'),
    agents: Agents.optional().describe(
      'coding agent whose program the session gets, below /opt/sandglass; its policy and its key come with it',
    ),
    readonly_rootfs: z
      .boolean()
      .optional()
      .describe(
        'read-only root filesystem; /workspace, /tmp and /home/sandbox stay writable. false lets root in the sandbox read files in the host’s /usr that only root may read',
      ),
    runtime: z
      .string()
      .min(1)
      .max(64)
      .optional()
      .describe(
        'OCI runtime: crun, runc or one of backends.oci.runtimes; for docker one of backends.docker.runtimes; when absent backends.oci.runtime, or the default of the engine',
      ),
    nested_virt: z
      .boolean()
      .optional()
      .describe(
        'hardware virtualisation in the sandbox; microvm only. On a host without it, a session with backend microvm is created without it, and any other is refused',
      ),
    mounts: z
      .array(HostMount)
      .max(16)
      .optional()
      .describe('host folder to mount in the sandbox, below the configured mount_roots; read-only by default'),
    ttl_seconds: within('session_ttl_seconds')
      .nullable()
      .optional()
      .describe(`${LIMITS.session_ttl_seconds.about}; a persistent session may have none`),
    on_expiry: OnExpiry.optional(),
    timeout_sec: within('session_timeout_sec').nullable().optional(),
    persist: z.boolean().optional().describe('true: mode persistent'),
    mode: Mode.optional(),
    agent_id: z
      .string()
      .min(1)
      .max(128)
      .optional()
      .describe(
        "the caller's name for the agent that uses the session; stored and shown; when absent, the name of a persistent session",
      ),
    env: Env.optional(),
    env_vars: EnvVars,
    labels: Labels.optional(),
    start: z.boolean().optional().describe('false creates the session stopped'),
  }),
)
export type SessionSpec = Omit<z.infer<typeof SessionSpec>, 'env_vars'>

/** A record, since `config` is a field whose keys are never converted. */
const SandboxConfig = z
  .record(z.string(), z.union([z.string(), z.number(), z.boolean(), z.array(z.string()), z.null()]))
  .describe(
    'settings under their names in sandboxes.json: memory (MiB), vcpus, nested_virt, network, persist, and sync_mode, sync_idle_seconds, env_files, which are null without a project',
  )

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
  policies: z.array(z.string()),
  policy_mode: PolicyMode.nullable(),
  secrets: z.array(z.string()).describe('names of the masked secrets'),
  agents: z.array(z.enum(AGENTS)).describe('coding agents that the session has the programs of'),
  warnings: z.array(z.string()).describe('what will not work as the session is set up, for people'),
  readonly_rootfs: z.boolean(),
  runtime: z.string().nullable().describe('OCI runtime of the spec; null for the configured one'),
  nested_virt: z.boolean(),
  mounts: z.array(z.object(HostMount.shape)).describe('host folders, with links resolved'),
  unenforced: z.array(z.string()).describe('limits that are not enforced: the host cannot, and the configuration allows it'),
  env_names: z.array(z.string()).describe('names of the environment variables'),
  env: z.record(z.string(), z.string()).optional().describe('values of the environment variables, if reveal_env is set'),
  labels: z.record(z.string(), z.string()),
  ttl_seconds: z.int().nullable().describe('null: the session does not expire'),
  on_expiry: OnExpiry,
  timeout_sec: z.int().nullable(),
  timeout: z.int().nullable().describe('timeout_sec, under its name in sessions.json'),
  agent: z.string().nullable().describe('coding agent that runs in the session; null for none'),
  prompt: z.string().nullable().describe('prompt of the agent; null for none'),
  project_path: z.string().nullable().describe('git repository on the host that the session works on; null for none'),
  ports: z.record(z.string(), z.int()).nullable().describe('ports of the host that lead to the session, by name; null for none'),
  config: SandboxConfig,
  created_at: Timestamp,
  started_at: Timestamp.nullable(),
  last_activity_at: Timestamp,
  expires_at: Timestamp.nullable().describe(
    'when a running or paused session expires without further use, or ends by its timeout_sec; null: never',
  ),
  expiry_action: OnExpiry.nullable().describe('what happens at expires_at: end if timeout_sec comes first, else on_expiry'),
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
  step: z.string().describe('description of the work, for users'),
  started_at: Timestamp,
})
export const PreparationList = z.object({ items: z.array(Preparation) })

export const RenewRequest = z.strictObject({
  ttl_seconds: within('session_ttl_seconds')
    .nullable()
    .optional()
    .describe('new ttl; null: none (persistent sessions only); unchanged when absent'),
})

export const StartRequest = z
  .strictObject({
    network: Network.optional(),
    policies: z.array(PolicyName).max(LIMITS.policies_per_session.max).optional(),
    policy_mode: PolicyMode.nullable().optional(),
    secrets: z.array(SecretName).max(LIMITS.secrets_per_session.max).optional(),
    agents: Agents.optional(),
  })
  .describe('changes for this and later starts; what is absent stays')
export type StartRequest = z.infer<typeof StartRequest>

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
