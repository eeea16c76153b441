// Ends a context: its session, its tasks, its policy and its folder.
import { rm } from 'node:fs/promises'
import { SandglassError } from '@sandglass/contract'
import { purgeSession } from '../../sessions/lifecycle/destroy.ts'
import { deleteContext } from '../../store/contexts.ts'
import { tasksOfContext } from '../../store/tasks.ts'
import { removeTaskPolicy } from '../agent-run/task-policy.ts'
import { contextFolder, type TaskContext, taskFolder, withContext } from '../context.ts'
import { folderOf, getContextRow } from './context-rows.ts'

/** The rows go last, so that a crash in between leaves a context that can be removed again. */
export const removeContext = (tasks: TaskContext, id: string): Promise<void> =>
  withContext(tasks, folderOf(id), () => remove(tasks, id))

async function remove(tasks: TaskContext, id: string): Promise<void> {
  const { sessions } = tasks
  const { folder, session_id } = await getContextRow(tasks, id)
  const rows = await tasksOfContext(sessions.store, folder)
  const unended = rows.find(({ status }) => status !== 'done')
  if (unended) throw new SandglassError('TASK_RUNNING', { id: unended.id })
  if (session_id !== null) await purgeSession(sessions, session_id, sessions.log).catch(ignoreMissing)
  await removeTaskPolicy(tasks, folder)
  for (const task of rows) await rm(taskFolder(tasks, task.id), { recursive: true, force: true })
  await rm(contextFolder(tasks, folder), { recursive: true, force: true })
  await deleteContext(sessions.store, folder)
}

function ignoreMissing(error: unknown): void {
  if (!(error instanceof SandglassError) || !error.is('SESSION_NOT_FOUND')) throw error
}
