// Finds, lists and removes tasks.
import { rm } from 'node:fs/promises'
import { LIMITS, SandglassError, type Task, type TaskQuery } from '@sandglass/contract'
import type { TaskRow } from '../store/tables.ts'
import { deleteTask, findTask, listTasks as listRows } from '../store/tasks.ts'
import { type TaskContext, taskFolder } from './context.ts'
import { folderOf } from './contexts/context-rows.ts'
import { removeContext } from './contexts/remove-context.ts'
import { showTask } from './task-record.ts'

export async function getTaskRow({ sessions }: TaskContext, id: string): Promise<TaskRow> {
  const row = await findTask(sessions.store, id)
  if (row === undefined) throw new SandglassError('TASK_NOT_FOUND', { id })
  return row
}

export const getTask = async (tasks: TaskContext, id: string): Promise<Task> => showTask(await getTaskRow(tasks, id))

export async function getEndedTask(tasks: TaskContext, id: string): Promise<TaskRow> {
  const row = await getTaskRow(tasks, id)
  if (row.status !== 'done') throw new SandglassError('TASK_RUNNING', { id })
  return row
}

export async function listTasks(
  { sessions }: TaskContext,
  { limit = LIMITS.list_page.default, offset = 0, cursor, status, context, group }: TaskQuery,
) {
  const filter = { status, group, contextFolder: context === undefined ? undefined : folderOf(context) }
  const { rows, total, nextCursor } = await listRows(sessions.store, filter, { limit, offset, cursor })
  return { items: rows.map(showTask), total, limit, offset, next_cursor: nextCursor }
}

/** The row goes last, so that a crash in between leaves a task that can be removed again. A context that the task had for itself goes with it. */
export async function removeTask(tasks: TaskContext, id: string): Promise<void> {
  const { context_id } = await getEndedTask(tasks, id)
  if (context_id === id) return removeContext(tasks, id)
  await rm(taskFolder(tasks, id), { recursive: true, force: true })
  await deleteTask(tasks.sessions.store, id)
}
