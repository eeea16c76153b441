// Rows as the database holds them. Times are milliseconds since the epoch; lists and maps are JSON text.
import type { Reason, SessionState } from '@sandglass/contract'
import type { Generated, Selectable } from 'kysely'

export interface Tables {
  sessions: SessionTable
  session_labels: { session_id: string; name: string; value: string }
  session_counts: { status: SessionState; n: number }
  events: EventTable
  idempotency: IdempotencyTable
  images: ImageTable
  image_references: { reference: string; image_id: string; resolved_at: number }
  image_builds: ImageBuildRow
  secrets: SecretTable
  meta: { name: string; value: string }
}

interface SessionTable {
  id: string
  name: string
  /** The name while the session has not ended, else null: its unique index lets an ended session's name be used again. */
  live_name: string | null
  template_id: string
  image: string
  /** The image that the name led to when the session was made; null for `host`. */
  image_id: string | null
  backend: string
  container_id: string | null
  status: SessionState
  is_final: 0 | 1
  reason: Reason
  error_message: string | null
  /** The limit that ended it, as JSON. */
  limit_hit: string | null
  mode: 'ephemeral' | 'persistent'
  agent_id: string | null
  cwd: string
  cpu_cores: number
  memory_mb: number
  disk_mb: number
  pids_limit: number
  /** Limits that its machine is being given, as JSON. */
  resizing: string | null
  network: 'none' | 'bridge'
  /** The OCI runtime it asked for. */
  runtime: string | null
  nested_virt: 0 | 1
  mounts: string
  readonly_rootfs: 0 | 1
  unenforced: string
  env_names: string
  env_sealed: Buffer | null
  labels: string
  /** Null: it does not expire. */
  ttl_seconds: number | null
  on_expiry: 'end' | 'stop' | 'pause'
  timeout_sec: number | null
  created_at: number
  started_at: number | null
  last_activity_at: number
  /** When the sweep acts on the session: the end of its ttl, of its hard limit, or of its retention when it is stopped. */
  expires_at: number | null
  terminated_at: number | null
  delete_at: number | null
}

interface EventTable {
  id: Generated<number>
  session_id: string
  type: string
  status: SessionState
  reason: Reason
  error_message: string | null
  created_at: number
}

interface IdempotencyTable {
  key: string
  route: string
  request_hash: string
  /** The session that the request created; its reply is the session as it stands. */
  session_id: string | null
  /** The reply of a request that created something else. */
  response: string | null
  created_at: number
}

interface ImageTable {
  /** Digest of the configuration. */
  id: string
  manifest_digest: string
  source: 'registry' | 'archive' | 'build'
  architecture: string
  /** What the configuration says about running it, as kept-settings.ts keeps it. The whole of it is a blob. */
  config: string
  /** Lowest first: digest, diff_id, media_type and size of each. */
  layers: string
  size_bytes: number
  created_at: number
  last_used_at: number
}

interface SecretTable {
  name: string
  /** Begins with the tag. */
  ciphertext: Buffer
  nonce: Buffer
  created_at: number
  updated_at: number
}

export type SessionRow = Selectable<SessionTable>
export type EventRow = Selectable<EventTable>
export type ImageRow = Selectable<ImageTable>
/** What was built, by a digest of what it was built from. */
export type ImageBuildRow = { key: string; image_id: string; built_at: number }
export type IdempotencyRow = Selectable<IdempotencyTable>
export type SecretRow = Selectable<SecretTable>
