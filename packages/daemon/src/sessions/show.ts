// A session as the API shows it.
import type { Session, SessionEventRecord } from '@sandglass/contract'
import type { Logger } from '../log.ts'
import { unsealEnv } from '../secrets/encryption.ts'
import type { EventRow } from '../store/tables.ts'
import type { SessionContext } from './context.ts'
import { hardEnd } from './lease/lease.ts'
import type { SessionRecord } from './session-record.ts'

/** SECURITY: each field is named, so that one that is added to a record is not shown by accident. */
export function showSession(record: SessionRecord): Session {
  return {
    id: record.id,
    name: record.name,
    template_id: record.template_id,
    image: record.image,
    backend: record.backend,
    container_id: record.container_id,
    status: record.status,
    reason: record.reason,
    error_message: record.error_message,
    limit_hit: record.limit_hit,
    mode: record.mode,
    agent_id: record.agent_id,
    cwd: record.cwd,
    cpu_cores: record.cpu_cores,
    memory_mb: record.memory_mb,
    disk_mb: record.disk_mb,
    pids_limit: record.pids_limit,
    network: record.network,
    policies: [...record.policies],
    policy_mode: record.policy_mode,
    secrets: record.secrets.map(({ name }) => name),
    agents: [...record.agents],
    warnings: [...record.warnings],
    readonly_rootfs: record.readonly_rootfs,
    runtime: record.runtime,
    nested_virt: record.nested_virt,
    mounts: [...record.mounts],
    unenforced: [...record.unenforced],
    env_names: [...record.env_names],
    labels: record.labels,
    ttl_seconds: record.ttl_seconds,
    on_expiry: record.on_expiry,
    timeout_sec: record.timeout_sec,
    ...registryFields(record),
    created_at: iso(record.created_at),
    started_at: isoOrNull(record.started_at),
    last_activity_at: iso(record.last_activity_at),
    expires_at: isoOrNull(record.status === 'stopped' ? null : record.expires_at),
    expiry_action: expiryAction(record),
    kept_until: isoOrNull(keptUntil(record)),
    terminated_at: isoOrNull(record.terminated_at),
    delete_at: isoOrNull(record.delete_at),
  }
}

/** The fields of the specs' sessions.json and sandboxes.json that have other names here, or that agents and projects will fill. */
function registryFields(
  record: SessionRecord,
): Pick<Session, 'timeout' | 'agent' | 'prompt' | 'project_path' | 'ports' | 'config'> {
  return {
    timeout: record.timeout_sec,
    agent: record.agent,
    prompt: record.prompt,
    project_path: null,
    ports: null,
    config: {
      memory: record.memory_mb,
      vcpus: record.cpu_cores,
      nested_virt: record.nested_virt,
      network: record.network,
      sync_mode: null,
      sync_idle_seconds: null,
      env_files: null,
      persist: record.mode === 'persistent',
    },
  }
}

function expiryAction(record: SessionRecord): Session['expiry_action'] {
  if (record.status === 'stopped' || record.expires_at === null) return null
  const end = hardEnd(record)
  return end !== null && record.expires_at >= end ? 'end' : record.on_expiry
}

function keptUntil({ status, expires_at, delete_at }: SessionRecord): number | null {
  if (status === 'stopped') return expires_at
  return status === 'failed' ? delete_at : null
}

/** SECURITY: whoever has the API key may read the values; the log records that they were read. */
export function showWithEnv(context: SessionContext, record: SessionRecord, log: Logger): Session {
  const env = sessionEnv(context, record)
  log.info({ sessionId: record.id }, 'environment shown')
  return { ...showSession(record), env }
}

export const sessionEnv = ({ secretKey }: SessionContext, { id, env_sealed }: SessionRecord): Record<string, string> =>
  env_sealed ? unsealEnv(secretKey, id, env_sealed) : {}

export function showEvent({ id, resource_id, type, status, reason, error_message, created_at }: EventRow): SessionEventRecord {
  return { id, session_id: resource_id, type, status, reason, error_message, created_at: iso(created_at) }
}

const iso = (ms: number) => new Date(ms).toISOString()
const isoOrNull = (ms: number | null) => (ms === null ? null : iso(ms))
