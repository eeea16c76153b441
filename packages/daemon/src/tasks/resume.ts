// Which conversation of the agent a task goes on with.
import type { TaskSpec } from '@sandglass/contract'
import type { TaskRow } from '../store/tables.ts'
import { tasksOfContext } from '../store/tasks.ts'
import type { TaskContext } from './context.ts'

/**
 * The one that the request names; none if it asks for a new one; else the last one of the context with this agent. An interrupted run has told its
 * id in the init event, and that one is resumed, too.
 */
export async function resumeOf(
  { sessions }: TaskContext,
  { id, agent, context_folder }: TaskRow,
  { agent_session_id, resume }: TaskSpec,
): Promise<string | null> {
  if (agent_session_id !== undefined) return agent_session_id
  if (resume === false) return null
  const earlier = await tasksOfContext(sessions.store, context_folder)
  const last = earlier.findLast(task => task.id !== id && task.agent === agent && task.agent_session_id !== null)
  return last?.agent_session_id ?? null
}
