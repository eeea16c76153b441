// POST /v1/tasks: checks what can be checked at once, and queues one task, or one for each agent and attempt.
import { AGENT_FACTS, type AgentName, LIMITS, newId, SandglassError, type Task, type TaskSpec } from '@sandglass/contract'
import { priceOf } from '../agents/adapters/prices.ts'
import { NO_USAGE } from '../agents/adapters/untrusted.ts'
import { resolvePolicies } from '../policies/named.ts'
import { runningSession } from '../sessions/live.ts'
import { ensureContext, patchContext } from '../store/contexts.ts'
import type { PendingRequest } from '../store/idempotency.ts'
import { findSecrets } from '../store/secrets.ts'
import { type ContextRow, DEFAULT_TENANT, type TaskRow } from '../store/tables.ts'
import { countQueued, insertTasks, tasksOfContext } from '../store/tasks.ts'
import { requireAgent } from './agent-run/session-of-task.ts'
import { type TaskContext, withContext } from './context.ts'
import { folderOf } from './contexts/context-rows.ts'
import { pump } from './queue.ts'
import { branchOf } from './results/repository.ts'
import { showTask, storedSpec } from './task-record.ts'
import { getUpload } from './uploads.ts'

export async function createTasks(tasks: TaskContext, spec: TaskSpec, request: PendingRequest | null): Promise<Task[]> {
  const { store } = tasks.sessions
  const agents = agentsOf(tasks, spec)
  refuseCombinations(spec, agents.length)
  for (const agent of agents) await checkAgent(tasks, spec, agent)
  await checkReferences(tasks, spec)
  if ((await countQueued(store)) >= LIMITS.queued_tasks.max)
    throw new SandglassError('TASK_QUEUE_FULL', { limit: LIMITS.queued_tasks.max })
  const attempts = agents.flatMap(agent => Array.from({ length: spec.attempts ?? 1 }, () => agent))
  const ids = attempts.map(() => newId('task_'))
  const [groupId = ''] = ids
  const rows = await withContext(tasks, folderOf(spec.context ?? groupId), async () => {
    const made: TaskRow[] = []
    for (const [index, agent] of attempts.entries())
      made.push(await newRow(tasks, spec, { id: ids[index] ?? '', groupId, attempt: index + 1, agent }))
    await insertTasks(store, made, request)
    return made
  })
  for (const { id, agent, context_id } of rows) tasks.sessions.log.info({ taskId: id, agent, context: context_id }, 'task queued')
  await pump(tasks)
  return rows.map(showTask)
}

const agentsOf = ({ sessions }: TaskContext, { agent, agents }: TaskSpec): AgentName[] =>
  agents ? [...new Set(agents)] : [agent ?? sessions.config.default_agent]

function refuseCombinations(spec: TaskSpec, agents: number): void {
  const refuse = (issue: string, next: string) => {
    throw new SandglassError('INVALID_REQUEST', { issue, next })
  }
  if (spec.agent !== undefined && spec.agents !== undefined) refuse('agent and agents are both given', 'give one of them')
  const isMany = agents > 1 || (spec.attempts ?? 1) > 1
  if (isMany && (spec.context !== undefined || spec.session !== undefined))
    refuse('several agents or attempts each get a context of their own', 'leave out context and session')
  if (spec.session !== undefined) {
    const given = (
      ['image', 'backend', 'mounts', 'cpu_cores', 'memory_mb', 'disk_mb', 'policies', 'secrets', 'base_url', 'mcp'] as const
    ).filter(name => spec[name] !== undefined)
    if (given.length > 0) refuse(`${given.join(', ')}: the session has its own`, 'leave them out, or leave out session')
  }
}

/** An agent without a key would fail only after its start. */
async function checkAgent({ sessions }: TaskContext, spec: TaskSpec, agent: AgentName): Promise<void> {
  const { credentials } = AGENT_FACTS[agent]
  const hasBudget = spec.max_cost_usd !== undefined || spec.context_max_cost_usd !== undefined
  if (agent !== 'claude' && hasBudget && priceOf(spec.model ?? '') === null)
    throw new SandglassError('MODEL_PRICE_UNKNOWN', { agent, model: spec.model ?? 'the default model' })
  if (spec.session !== undefined) {
    const { record } = await runningSession(sessions, spec.session, 'run a task in')
    return requireAgent(record, agent)
  }
  // The key of a gateway, or one under another name, may come with the task's own secrets.
  if (spec.base_url !== undefined || (spec.secrets ?? []).length > 0) return
  const found = await findSecrets(
    sessions.store,
    credentials.map(({ secret }) => secret),
  )
  if (found.length === 0) throw new SandglassError('AGENT_KEY_MISSING', { agent })
}

async function checkReferences(tasks: TaskContext, spec: TaskSpec): Promise<void> {
  const { store } = tasks.sessions
  await resolvePolicies(store, spec.policies ?? [])
  const secrets = [...(spec.secrets ?? []), ...Object.values(spec.mcp ?? {}).flatMap(({ secret }) => secret ?? [])]
  const known = new Set((await findSecrets(store, secrets)).map(({ name }) => name))
  for (const name of secrets) if (!known.has(name)) throw new SandglassError('SECRET_NOT_FOUND', { name })
  const uploads = [spec.repository?.upload, ...(spec.files ?? []).map(({ upload }) => upload)]
  for (const upload of uploads) if (upload !== undefined) await getUpload(tasks, upload)
}

async function newRow(
  tasks: TaskContext,
  spec: TaskSpec,
  { id, groupId, attempt, agent }: { id: string; groupId: string; attempt: number; agent: AgentName },
): Promise<TaskRow> {
  const { sessions } = tasks
  const now = sessions.now()
  const context = await contextOf(tasks, spec, id, agent, now)
  const row: TaskRow = {
    id,
    tenant: DEFAULT_TENANT,
    group_id: groupId,
    attempt,
    context_folder: context.folder,
    context_id: context.context_id,
    agent,
    agent_version: null,
    session_id: null,
    session_name: null,
    status: 'queued',
    phase: 'waiting',
    stop_requested: 0,
    outcome: null,
    reason: null,
    error_message: null,
    prompt: spec.prompt,
    model: spec.model ?? context.model,
    agent_session_id: null,
    resumed_from: null,
    response_text: null,
    task_usage: JSON.stringify(NO_USAGE),
    total_cost_usd: null,
    num_turns: 0,
    exit_code: null,
    check_exit_code: null,
    tries: 0,
    event_count: 0,
    timeout_sec: spec.timeout_sec ?? LIMITS.task_timeout_seconds.default,
    max_turns: spec.max_turns ?? null,
    max_cost_usd: spec.max_cost_usd ?? null,
    has_patch: 0,
    branch: null,
    labels: JSON.stringify(spec.labels ?? {}),
    spec: storedSpec(sessions, id, spec),
    created_at: now,
    started_at: null,
    ended_at: null,
    delete_at: null,
  }
  return spec.repository ? { ...row, branch: branchOf(row, spec.repository.branch) } : row
}

/** The context of the request, or a new one with the task's own id. A task's model and cost cap replace those of its context. */
async function contextOf(tasks: TaskContext, spec: TaskSpec, taskId: string, agent: AgentName, now: number): Promise<ContextRow> {
  const { store } = tasks.sessions
  const context_id = spec.context ?? taskId
  const folder = folderOf(context_id)
  const fresh: ContextRow = {
    folder,
    context_id,
    session_id: null,
    model: spec.model ?? null,
    agents: JSON.stringify([agent]),
    replies: 0,
    total_cost_usd: 0,
    max_cost_usd: spec.context_max_cost_usd ?? null,
    created_at: now,
    updated_at: now,
  }
  const found = await ensureContext(store, fresh)
  if (spec.on_busy === 'refuse') {
    const busy = (await tasksOfContext(store, folder)).find(({ status }) => status !== 'done')
    if (busy) throw new SandglassError('CONTEXT_BUSY', { id: context_id, task: busy.id })
  }
  const agents = [...new Set([...(JSON.parse(found.agents) as AgentName[]), agent])]
  const changes = {
    updated_at: now,
    agents: JSON.stringify(agents),
    ...(spec.model !== undefined && { model: spec.model }),
    ...(spec.context_max_cost_usd !== undefined && { max_cost_usd: spec.context_max_cost_usd }),
  }
  await patchContext(store, folder, changes)
  return { ...found, ...changes }
}
