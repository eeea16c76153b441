// Rows as the database stores them. Times are milliseconds since the epoch; lists and maps are JSON text.
import type {
  AgentName,
  ApprovalScope,
  ApprovalState,
  Network,
  Outcome,
  PolicyMode,
  Reason,
  SessionState,
  TaskReason,
  TaskState,
} from '@sandglass/contract'

/** Every row belongs to this tenant until requests carry one. */
export const DEFAULT_TENANT = 'default'

export interface Tables {
  sessions: SessionRow
  session_labels: { session_id: string; name: string; value: string }
  session_counts: { tenant: string; status: SessionState; n: number }
  events: EventRow
  idempotency: IdempotencyRow & Tenanted
  images: ImageRow & Tenanted
  image_references: { reference: string; image_id: string; resolved_at: number } & Tenanted
  image_builds: ImageBuildRow & Tenanted
  secrets: SecretRow & Tenanted
  policies: PolicyRow & Tenanted
  approvals: ApprovalRow
  contexts: ContextRow & Tenanted
  tasks: TaskRow
  sequences: { name: 'events' | 'approvals'; value: number }
  meta: { name: string; value: string }
}

type Tenanted = { tenant: string }

export interface SessionRow {
  id: string
  tenant: string
  name: string
  /** The name until the session ends, then null. Its unique index lets a new session use the name of an ended one. */
  live_name: string | null
  template_id: string
  image: string
  /** The image that the reference resolved to at creation; null for `host`. */
  image_id: string | null
  backend: string
  container_id: string | null
  status: SessionState
  is_final: 0 | 1
  reason: Reason
  error_message: string | null
  /** The limit that ended the session, as JSON. */
  limit_hit: string | null
  mode: 'ephemeral' | 'persistent'
  agent_id: string | null
  cwd: string
  cpu_cores: number
  memory_mb: number
  disk_mb: number
  pids_limit: number
  /** The new limits while a resize is under way, as JSON. */
  resizing: string | null
  network: Network
  /** Names of policies, as JSON. */
  policies: string
  /** Null: the modes of the policies hold. */
  policy_mode: PolicyMode | null
  /** Names of secrets with their surrogates, as JSON. */
  secrets: string
  /** Names of coding agents, as JSON. */
  agents: string
  /** Version and digest of the programs of the agents since the last start, as JSON. */
  agent_packages: string
  /** The agent and the prompt of the task that made the session. */
  agent: AgentName | null
  prompt: string | null
  /** The certificate authority that the machine trusts since its last start; null without egress. */
  ca_fingerprint: string | null
  /** What will not work, as JSON. */
  warnings: string
  /** The requested OCI runtime; null for the default one. */
  runtime: string | null
  nested_virt: 0 | 1
  mounts: string
  readonly_rootfs: 0 | 1
  unenforced: string
  env_names: string
  env_sealed: Buffer | null
  labels: string
  /** Null: the session does not expire. */
  ttl_seconds: number | null
  on_expiry: 'end' | 'stop' | 'pause'
  timeout_sec: number | null
  created_at: number
  started_at: number | null
  last_activity_at: number
  /** When the reaper acts on the session: the end of its ttl, of its hard limit or, when stopped, of its retention. */
  expires_at: number | null
  terminated_at: number | null
  delete_at: number | null
}

/** The thing that an event or an idempotency key is about. */
export type Resource = { resource_kind: 'session' | 'task'; resource_id: string }

export interface EventRow extends Resource {
  /** Rises in the order of the commits. */
  id: number
  tenant: string
  type: string
  status: SessionState
  reason: Reason
  error_message: string | null
  created_at: number
}

/** The resource is what the request created or, for something inside a session, that session. The row is deleted with it. */
export interface IdempotencyRow extends Resource {
  key: string
  /** Method and path, with the id of the resource in place of its name. */
  route: string
  request_hash: string
  /** The reply; null where the reply is the resource as it is now. */
  response: string | null
  created_at: number
}

export interface ImageRow {
  /** Digest of the configuration. */
  id: string
  manifest_digest: string
  /** A step is the result of one step of a build, which the next build continues from. Lists leave it out. */
  source: 'registry' | 'archive' | 'build' | 'step'
  architecture: string
  /** The settings for running it, as storedSettings in images/store/image-row.ts selects them. The whole configuration is a blob. */
  config: string
  /** Digest, diff_id, media_type and size of each, lowest layer first. */
  layers: string
  size_bytes: number
  created_at: number
  last_used_at: number
}

export interface SecretRow {
  name: string
  /** Starts with the authentication tag. */
  ciphertext: Buffer
  nonce: Buffer
  /** How it is used, as JSON; null if it was stored before there were settings. */
  settings: string | null
  created_at: number
  updated_at: number
}

/** `policy` is JSON in the form of the contract's Policy. */
export type PolicyRow = { name: string; policy: string; created_at: number; updated_at: number }

export interface ApprovalRow {
  id: string
  tenant: string
  session_id: string
  session_name: string
  status: ApprovalState
  method: string | null
  url: string
  host: string
  port: number
  scope: ApprovalScope | null
  requests: number
  /** When the request was held. */
  created_at: number
  expires_at: number
  answered_at: number | null
  /** Rises with every change of any approval, in the order of the commits. */
  revision: number
}

/** `key` is a digest of everything that the image was built from. */
export type ImageBuildRow = { key: string; image_id: string; built_at: number }

export interface ContextRow {
  /** Digest of the id: the name of the context's folder. */
  folder: string
  context_id: string
  session_id: string | null
  model: string | null
  /** Agents that have worked in it, as JSON. */
  agents: string
  replies: number
  total_cost_usd: number
  max_cost_usd: number | null
  created_at: number
  updated_at: number
}

/** What a running task does; a daemon that finds it goes on from there. */
export type TaskPhase = 'waiting' | 'preparing' | 'agent' | 'recovery' | 'finishing' | 'ended'

export interface TaskRow {
  id: string
  tenant: string
  group_id: string
  attempt: number
  context_folder: string
  context_id: string
  agent: AgentName
  agent_version: string | null
  session_id: string | null
  session_name: string | null
  status: TaskState
  phase: TaskPhase
  stop_requested: 0 | 1
  outcome: Outcome | null
  reason: TaskReason | null
  error_message: string | null
  prompt: string
  model: string | null
  agent_session_id: string | null
  resumed_from: string | null
  response_text: string | null
  /** As JSON. */
  task_usage: string
  total_cost_usd: number | null
  num_turns: number
  exit_code: number | null
  check_exit_code: number | null
  tries: number
  event_count: number
  timeout_sec: number
  max_turns: number | null
  max_cost_usd: number | null
  has_patch: 0 | 1
  branch: string | null
  labels: string
  /** The request, as JSON. Environment values in it are encrypted. */
  spec: string
  created_at: number
  started_at: number | null
  ended_at: number | null
  delete_at: number | null
}
