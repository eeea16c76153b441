// What a session needs before its agent starts: the task's files, its repository, and the agent's own configuration.
import { createReadStream } from 'node:fs'
import { AGENT_FACTS, type AgentName, SANDBOX_HOME, type TaskSpec, type Usage, WORKSPACE } from '@sandglass/contract'
import type { AgentRun, ResolvedMcp } from '../../agents/adapters/adapter.ts'
import { addUsage, NO_USAGE } from '../../agents/adapters/untrusted.ts'
import { agentProgram } from '../../agents/packages/program.ts'
import { settingsByName } from '../../secrets/session-secrets.ts'
import type { SessionRecord } from '../../sessions/session-record.ts'
import type { Store } from '../../store/open.ts'
import type { TaskRow } from '../../store/tables.ts'
import { tasksOfContext } from '../../store/tasks.ts'
import type { TaskContext } from '../context.ts'
import { cloneRepository } from '../results/repository.ts'
import { getUpload } from '../uploads.ts'
import { uploadToSession, writeInSession } from './in-session.ts'

export async function putFiles(
  tasks: TaskContext,
  task: TaskRow,
  spec: TaskSpec,
  sessionId: string,
  signal: AbortSignal,
): Promise<void> {
  const { sessions } = tasks
  if (spec.repository && task.branch !== null)
    await cloneRepository(tasks, { sessionId, upload: spec.repository.upload, branch: task.branch }, signal)
  for (const { path, text, upload, mode } of spec.files ?? []) {
    if (text !== undefined) await writeInSession(sessions, sessionId, { path, text, mode })
    else if (upload !== undefined) {
      const { path: source, bytes } = await getUpload(tasks, upload)
      await uploadToSession(sessions, sessionId, { path, mode, chunks: createReadStream(source), bytes }, signal)
    }
  }
}

/** What the adapter is told about a run. */
export async function agentRun(
  { sessions }: TaskContext,
  task: TaskRow,
  spec: TaskSpec,
  session: SessionRecord,
  { resume, maxCostUsd }: { resume: string | null; maxCostUsd: number | null },
): Promise<AgentRun> {
  const settings = await settingsByName(sessions, session.secrets)
  const variableOf = (name: string) => settings.get(name)?.env ?? null
  return {
    program: agentProgram(task.agent),
    home: SANDBOX_HOME,
    cwd: WORKSPACE,
    isInteractive: false,
    model: task.model,
    resume,
    maxTurns: task.max_turns,
    maxCostUsd,
    baseUrl: spec.base_url ?? null,
    trustRepoConfig: spec.trust_repo_config ?? false,
    allowWebTools: spec.allow_web_tools ?? false,
    mcp: resolveMcp(spec, variableOf),
    credentialEnv: credentialOf(task.agent, session, variableOf),
    usageBefore: resume === null ? null : await usageOf(sessions.store, task, resume),
  }
}

/** What earlier tasks of the context have used in this conversation. */
async function usageOf(store: Store, { id, context_folder }: TaskRow, agentSessionId: string): Promise<Usage> {
  const earlier = await tasksOfContext(store, context_folder)
  return earlier
    .filter(task => task.id !== id && task.agent_session_id === agentSessionId)
    .map(task => JSON.parse(task.task_usage) as Usage)
    .reduce(addUsage, NO_USAGE)
}

/** The variable with the surrogate of the agent's key. */
function credentialOf(agent: AgentName, { secrets }: SessionRecord, variableOf: (name: string) => string | null): string | null {
  const given = new Set(secrets.map(({ name }) => name))
  const known = AGENT_FACTS[agent].credentials.find(({ secret }) => given.has(secret))
  if (known) return variableOf(known.secret) ?? known.settings.env
  const names = AGENT_FACTS[agent].credentials.map(({ settings }) => settings.env)
  return secrets.map(({ name }) => variableOf(name)).find(name => name !== null && names.includes(name)) ?? null
}

function resolveMcp({ mcp = {} }: TaskSpec, variableOf: (name: string) => string | null): Record<string, ResolvedMcp> {
  return Object.fromEntries(
    Object.entries(mcp).map(([name, { url, command, env = {}, secret }]): [string, ResolvedMcp] => {
      const variable = secret === undefined ? null : variableOf(secret)
      if (url !== undefined) return [name, { url, bearerEnv: variable }]
      return [name, { command: command ?? [], env, inherit: variable === null ? [] : [variable] }]
    }),
  )
}
