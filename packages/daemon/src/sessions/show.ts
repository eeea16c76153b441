// A session as the API shows it.
import type { Session, SessionEventRecord } from '@sandglass/contract'
import type { EventRow, SessionRow } from '../store/tables.ts'

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
    mode: row.mode,
    agent_id: row.agent_id,
    cwd: row.cwd,
    cpu_cores: row.cpu_cores,
    memory_mb: row.memory_mb,
    disk_mb: row.disk_mb,
    pids_limit: row.pids_limit,
    network: row.network,
    readonly_rootfs: row.readonly_rootfs === 1,
    unenforced: JSON.parse(row.unenforced),
    env_names: JSON.parse(row.env_names),
    labels: JSON.parse(row.labels),
    ttl_seconds: row.ttl_seconds,
    timeout_sec: row.timeout_sec,
    created_at: iso(row.created_at),
    started_at: isoOrNull(row.started_at),
    last_activity_at: iso(row.last_activity_at),
    expires_at: isoOrNull(row.expires_at),
    terminated_at: isoOrNull(row.terminated_at),
    delete_at: isoOrNull(row.delete_at),
  }
}

export function showEvent(row: EventRow): SessionEventRecord {
  return { ...row, created_at: iso(row.created_at) }
}

const iso = (ms: number) => new Date(ms).toISOString()
const isoOrNull = (ms: number | null) => (ms === null ? null : iso(ms))
