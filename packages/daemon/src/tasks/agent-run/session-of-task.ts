// The session that a task works in: the one that the request names, or the one that its context owns. A context's session is created at its
// first task, is stopped between tasks, and is created again if somebody has removed it.
import { CONTEXT_LABEL, FINAL_STATES, LIMITS, newId, SandglassError, type SessionSpec, type TaskSpec } from '@sandglass/contract'
import { createSession } from '../../sessions/lifecycle/create.ts'
import { purgeSession } from '../../sessions/lifecycle/destroy.ts'
import { resumeSession } from '../../sessions/lifecycle/pause.ts'
import { startSession } from '../../sessions/lifecycle/start.ts'
import { findSession, getSession, runningSession } from '../../sessions/live.ts'
import { patchRecord, type SessionRecord } from '../../sessions/session-record.ts'
import { findContext, patchContext } from '../../store/contexts.ts'
import type { TaskRow } from '../../store/tables.ts'
import type { TaskContext } from '../context.ts'
import { restoreStates } from '../results/agent-state.ts'
import { taskPolicies } from './task-policy.ts'

/** Resolves when the session runs. Throws what a create or start throws. */
export async function sessionOfTask(
  tasks: TaskContext,
  task: TaskRow,
  spec: TaskSpec,
  signal: AbortSignal,
): Promise<SessionRecord> {
  const { sessions } = tasks
  if (spec.session !== undefined) {
    const { record } = await runningSession(sessions, spec.session, 'run a task in')
    requireAgent(record, task.agent)
    if (record.agent === null) await showInSession(tasks, record.id, task)
    return record
  }
  const context = await findContext(sessions.store, task.context_folder)
  const known = context?.session_id ? await findSession(sessions, context.session_id) : undefined
  const network = {
    policies: [...(spec.policies ?? []), ...(await taskPolicies(tasks, task, spec))],
    secrets: [...(spec.secrets ?? []), ...mcpSecrets(spec)],
  }
  // Its first start failed, or a daemon died meanwhile: there is nothing in it.
  const hasNeverRun = known?.status === 'failed' && known.started_at === null
  if (hasNeverRun) await purgeSession(sessions, known.id, sessions.log)
  const isGone = known === undefined || hasNeverRun || FINAL_STATES.includes(known.status)
  if (!isGone) refuseOther(known, spec)
  const record = isGone
    ? await createOwned(tasks, task, spec, network, signal)
    : await startOwned(tasks, task, known, network, signal)
  return record.agent === null ? setUp(tasks, task, record, signal) : record
}

/** Throws for settings that differ from those of the context's session, which its first task has created. */
function refuseOther(known: SessionRecord, spec: TaskSpec): void {
  const given = (['image', 'backend', 'mounts', 'cpu_cores', 'memory_mb', 'disk_mb'] as const).filter(
    name => spec[name] !== undefined && spec[name] !== known[name],
  )
  if (given.length > 0)
    throw new SandglassError('INVALID_REQUEST', {
      issue: `${given.join(', ')}: the context has a session already, ${known.name}`,
      next: 'leave them out, or use another context',
    })
}

export function requireAgent({ agents, name }: SessionRecord, agent: TaskRow['agent']): void {
  if (!agents.includes(agent)) throw new SandglassError('AGENT_NOT_IN_SESSION', { agent, name })
}

type NetworkOfTask = { policies: string[]; secrets: string[] }

async function createOwned(
  tasks: TaskContext,
  task: TaskRow,
  spec: TaskSpec,
  network: NetworkOfTask,
  signal: AbortSignal,
): Promise<SessionRecord> {
  const { sessions } = tasks
  const wanted: SessionSpec = {
    ...(spec.image !== undefined && { image: spec.image }),
    ...(spec.backend !== undefined && { backend: spec.backend }),
    ...(spec.mounts !== undefined && { mounts: spec.mounts }),
    ...(spec.cpu_cores !== undefined && { cpu_cores: spec.cpu_cores }),
    ...(spec.memory_mb !== undefined && { memory_mb: spec.memory_mb }),
    ...(spec.disk_mb !== undefined && { disk_mb: spec.disk_mb }),
    agents: [task.agent],
    ...network,
    mode: 'persistent',
    ttl_seconds: LIMITS.session_ttl_seconds.default,
    labels: { [CONTEXT_LABEL]: task.context_folder.slice(0, 16) },
  }
  // The context knows the session before it exists, so that a crash in between leaves no session that nobody knows.
  const id = newId('sess_')
  await patchContext(sessions.store, task.context_folder, { session_id: id })
  try {
    return await createSession(sessions, { spec: wanted, id, idempotency: null, signal, log: sessions.log })
  } catch (error) {
    const isStored = (await findSession(sessions, id)) !== undefined
    if (!isStored) await patchContext(sessions.store, task.context_folder, { session_id: null })
    throw error
  }
}

/** What a new session needs besides its start. The agent is shown last: a session that shows none is not set up yet. */
async function setUp(tasks: TaskContext, task: TaskRow, { id }: SessionRecord, signal: AbortSignal): Promise<SessionRecord> {
  await restoreStates(tasks, task.context_folder, id, signal)
  await showInSession(tasks, id, task)
  return getSession(tasks.sessions, id)
}

/** A session shows the agent and the prompt of its first task. */
async function showInSession({ sessions }: TaskContext, id: string, { agent, prompt }: TaskRow): Promise<void> {
  await patchRecord(sessions.store, id, { agent, prompt })
  const live = sessions.live.get(id)
  if (live) live.record = { ...live.record, agent, prompt }
}

async function startOwned(
  { sessions }: TaskContext,
  task: TaskRow,
  known: SessionRecord,
  network: NetworkOfTask,
  signal: AbortSignal,
): Promise<SessionRecord> {
  if (known.status === 'paused') await resumeSession(sessions, known.id, sessions.log)
  const isUp = known.status === 'running' || known.status === 'paused'
  if (isUp) {
    // A session that runs keeps the programs, policies and secrets of its start.
    requireAgent(known, task.agent)
    const missing = [
      ...network.policies.filter(name => !known.policies.includes(name)),
      ...network.secrets.filter(name => !known.secrets.some(given => given.name === name)),
    ]
    if (missing.length > 0)
      throw new SandglassError('INVALID_REQUEST', {
        issue: `the session ${known.name} of the context runs without ${missing.join(', ')}`,
        next: `sandglass stop ${known.name}, then run the task again`,
      })
    return (await runningSession(sessions, known.id, 'run a task in')).record
  }
  const agents = [...new Set([...known.agents, task.agent])]
  return startSession(sessions, known.id, { agents, ...network }, signal, sessions.log)
}

const mcpSecrets = ({ mcp = {} }: TaskSpec): string[] => Object.values(mcp).flatMap(({ secret }) => secret ?? [])
