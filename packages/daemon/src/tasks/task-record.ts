// A task as the API shows it, and the request that it was made from.
import { isRecoverable, type Task, type TaskResult, type TaskSpec, type Usage } from '@sandglass/contract'
import { sealEnv, unsealEnv } from '../secrets/encryption.ts'
import type { SessionContext } from '../sessions/context.ts'
import type { TaskRow } from '../store/tables.ts'

export function showTask(row: TaskRow): Task {
  const { tenant, context_folder, context_id, phase, stop_requested, task_usage, event_count, spec, delete_at, ...shown } = row
  return {
    ...shown,
    context: context_id,
    is_recoverable: isRecoverable(row.outcome, row.reason),
    usage: JSON.parse(task_usage) as Usage,
    events: event_count,
    has_patch: row.has_patch === 1,
    labels: JSON.parse(row.labels) as Record<string, string>,
    created_at: iso(row.created_at),
    started_at: isoOrNull(row.started_at),
    deadline_at: row.status === 'running' ? isoOrNull(deadlineOf(row)) : null,
    ended_at: isoOrNull(row.ended_at),
    duration_ms: row.started_at === null || row.ended_at === null ? null : row.ended_at - row.started_at,
  }
}

/** Of a task that has ended. */
export function showResult(row: TaskRow): TaskResult {
  const { outcome, reason } = row
  return {
    task_id: row.id,
    outcome: outcome ?? 'CONTAINER_FAILED',
    reason: reason ?? 'crashed',
    error_message: row.error_message,
    session_id: row.agent_session_id,
    response_text: row.response_text ?? '',
    duration_ms: (row.ended_at ?? row.created_at) - (row.started_at ?? row.ended_at ?? row.created_at),
    total_cost_usd: row.total_cost_usd,
    num_turns: row.num_turns,
    is_error: outcome !== 'SUCCESS',
    usage: JSON.parse(row.task_usage) as Usage,
    exit_code: row.exit_code,
    check_exit_code: row.check_exit_code,
  }
}

/** When the agent is ended; null before its start. */
export const deadlineOf = ({ started_at, timeout_sec }: TaskRow): number | null =>
  started_at === null ? null : started_at + timeout_sec * 1000

/** SECURITY: values of the environment are encrypted in the store, as those of sessions are. */
export function storedSpec({ secretKey }: SessionContext, id: string, { env, ...spec }: TaskSpec): string {
  return JSON.stringify({ ...spec, ...(env && { env_sealed: sealEnv(secretKey, id, env).toString('base64') }) })
}

export function specOf({ secretKey }: SessionContext, row: TaskRow): TaskSpec {
  const { env_sealed, ...spec } = JSON.parse(row.spec) as TaskSpec & { env_sealed?: string }
  return env_sealed === undefined ? spec : { ...spec, env: unsealEnv(secretKey, row.id, Buffer.from(env_sealed, 'base64')) }
}

const iso = (ms: number) => new Date(ms).toISOString()
const isoOrNull = (ms: number | null) => (ms === null ? null : iso(ms))
