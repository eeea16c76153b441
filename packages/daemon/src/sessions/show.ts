// A session as the API shows it.
import type { Session, SessionEventRecord } from '@sandglass/contract'
import type { Logger } from '../log.ts'
import { unsealEnv } from '../secrets/seal.ts'
import type { EventRow, SessionRow } from '../store/tables.ts'
import type { SessionContext } from './context.ts'

export function showSession(row: SessionRow): Session {
  return {
    id: row.id,
    name: row.name,
    template_id: row.template_id,
    image: row.image,
    backend: row.backend,
    container_id: row.container_id,
    status: row.status,
    reason: row.reason,
    error_message: row.error_message,
    limit_hit: row.limit_hit === null ? null : JSON.parse(row.limit_hit),
    mode: row.mode,
    agent_id: row.agent_id,
    cwd: row.cwd,
    cpu_cores: row.cpu_cores,
    memory_mb: row.memory_mb,
    disk_mb: row.disk_mb,
    pids_limit: row.pids_limit,
    network: row.network,
    readonly_rootfs: row.readonly_rootfs === 1,
    runtime: row.runtime,
    nested_virt: row.nested_virt === 1,
    mounts: JSON.parse(row.mounts),
    unenforced: JSON.parse(row.unenforced),
    env_names: JSON.parse(row.env_names),
    labels: JSON.parse(row.labels),
    ttl_seconds: row.ttl_seconds,
    on_expiry: row.on_expiry,
    timeout_sec: row.timeout_sec,
    created_at: iso(row.created_at),
    started_at: isoOrNull(row.started_at),
    last_activity_at: iso(row.last_activity_at),
    expires_at: isoOrNull(row.status === 'stopped' ? null : row.expires_at),
    kept_until: isoOrNull(keptUntil(row)),
    terminated_at: isoOrNull(row.terminated_at),
    delete_at: isoOrNull(row.delete_at),
  }
}

function keptUntil({ status, expires_at, delete_at }: SessionRow): number | null {
  if (status === 'stopped') return expires_at
  return status === 'failed' ? delete_at : null
}

/** SECURITY: whoever holds the key may read the values; that it was done is in the log. */
export function showWithEnv(context: SessionContext, row: SessionRow, log: Logger): Session {
  const env = sessionEnv(context, row)
  log.info({ sessionId: row.id }, 'environment shown')
  return { ...showSession(row), env }
}

export const sessionEnv = ({ secretKey }: SessionContext, { id, env_sealed }: SessionRow): Record<string, string> =>
  env_sealed ? unsealEnv(secretKey, id, env_sealed) : {}

export function showEvent(row: EventRow): SessionEventRecord {
  return { ...row, created_at: iso(row.created_at) }
}

const iso = (ms: number) => new Date(ms).toISOString()
const isoOrNull = (ms: number | null) => (ms === null ? null : iso(ms))
