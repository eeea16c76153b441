// Contexts by the caller's id. The id is opaque text, so its digest names the folder and the row.
import { createHash } from 'node:crypto'
import { type Context, LIMITS, SandglassError } from '@sandglass/contract'
import { findContext, listContexts as listRows } from '../../store/contexts.ts'
import type { ContextRow } from '../../store/tables.ts'
import { listTasks } from '../../store/tasks.ts'
import type { TaskContext } from '../context.ts'

export const folderOf = (contextId: string): string => createHash('sha256').update(contextId).digest('hex')

export async function getContextRow({ sessions }: TaskContext, id: string): Promise<ContextRow> {
  const row = await findContext(sessions.store, folderOf(id))
  if (row === undefined) throw new SandglassError('CONTEXT_NOT_FOUND', { id })
  return row
}

export const getContext = async (tasks: TaskContext, id: string): Promise<Context> =>
  showContext(tasks, await getContextRow(tasks, id))

export async function listContexts(
  tasks: TaskContext,
  { limit = LIMITS.list_page.default, offset = 0, cursor }: { limit?: number; offset?: number; cursor?: string },
) {
  const { rows, total, nextCursor } = await listRows(tasks.sessions.store, { limit, offset, cursor })
  const items = await Promise.all(rows.map(row => showContext(tasks, row)))
  return { items, total, limit, offset, next_cursor: nextCursor }
}

async function showContext({ sessions }: TaskContext, row: ContextRow): Promise<Context> {
  const running = await listTasks(sessions.store, { status: 'running', contextFolder: row.folder }, { limit: 1, offset: 0 })
  return {
    id: row.context_id,
    folder: row.folder,
    session_id: row.session_id,
    model: row.model,
    agents: JSON.parse(row.agents) as Context['agents'],
    replies: row.replies,
    total_cost_usd: row.total_cost_usd,
    max_cost_usd: row.max_cost_usd,
    running_task: running.rows[0]?.id ?? null,
    created_at: new Date(row.created_at).toISOString(),
    updated_at: new Date(row.updated_at).toISOString(),
  }
}
