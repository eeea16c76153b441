// One run of the agent: starts it or finds it, reads its output to the end, and concludes the run. Enforces the limits of turns and cost for
// agents that do not enforce them themselves.
import { DEFAULT_PATH, type LimitHit, type TaskSpec } from '@sandglass/contract'
import type { AgentParser, AgentRun, Conclusion, ParsedEvent } from '../../agents/adapters/adapter.ts'
import { ADAPTERS } from '../../agents/adapters/adapters.ts'
import { agentToolFolders } from '../../agents/packages/program.ts'
import { processLimitHit } from '../../sessions/limits/limit-hits.ts'
import { findSession } from '../../sessions/live.ts'
import type { SessionRecord } from '../../sessions/session-record.ts'
import { findContext } from '../../store/contexts.ts'
import type { TaskRow } from '../../store/tables.ts'
import type { TaskContext } from '../context.ts'
import type { LogWriter } from '../event-log.ts'
import { deadlineOf } from '../task-record.ts'
import { type AgentEnd, followAgent } from './follow-agent.ts'
import { agentRun } from './prepare.ts'
import { findAgent, killAgent, startAgent, stopAgent, tagOf } from './start-agent.ts'

export type AgentRunRequest = {
  task: TaskRow
  spec: TaskSpec
  session: SessionRecord
  log: LogWriter
  stop: AbortSignal
  prompt: string
  resume: string | null
  /** Called when the agent has reported the id of its conversation. */
  onSession: (agentSessionId: string) => Promise<void>
}

export async function runAgent(
  tasks: TaskContext,
  run: AgentRunRequest,
): Promise<{ conclusion: Conclusion; exitCode: number | null }> {
  const { sessions } = tasks
  const { task, session, log, stop } = run
  const maxCostUsd = await remainingBudget(tasks, task)
  const launch = await agentRun(tasks, task, run.spec, session, { resume: run.resume, maxCostUsd })
  const parser = ADAPTERS[task.agent].parser(launch)
  if (maxCostUsd !== null && maxCostUsd <= 0) return { conclusion: overBudget(parser), exitCode: null }
  const found = await findAgent(sessions, session.id, tagOf(task.id, task.tries))
  const pid = found.pid ?? (await start(tasks, run, launch))
  for (const unprompted of found.unprompted) await killAgent(sessions, session.id, unprompted)
  const watch = new Watch(parser, task.max_turns, maxCostUsd)
  let cancelKill: () => void = () => undefined
  const end = (why: Ending) => {
    if (!watch.begin(why)) return
    stopAgent(sessions, session.id, pid).then(
      cancel => (cancelKill = cancel),
      err => sessions.log.warn({ err, taskId: task.id }, 'agent could not be stopped'),
    )
  }
  const onStop = () => end('stopped')
  stop.addEventListener('abort', onStop)
  if (stop.aborted) onStop()
  let isToldSession = false
  const onEvent = (event: ParsedEvent) => {
    // Once: an agent may print any number of them, and the last one is stored at the end.
    if (event.type === 'init' && event.agent_session_id !== undefined && !isToldSession) {
      isToldSession = true
      run.onSession(event.agent_session_id).catch(err => sessions.log.warn({ err, taskId: task.id }, 'task could not be stored'))
    }
    const reached = watch.take(event)
    if (reached !== null) end(reached)
  }
  try {
    const agent = { taskId: task.id, sessionId: session.id, pid, tryNumber: task.tries, parser, log, onEvent }
    const ended = await followAgent(tasks, agent)
    return { conclusion: await conclude(tasks, parser, { ...ended, pid }, watch, session), exitCode: ended.exitCode }
  } finally {
    stop.removeEventListener('abort', onStop)
    cancelKill()
  }
}

async function start(tasks: TaskContext, { task, spec, session, prompt }: AgentRunRequest, launch: AgentRun): Promise<number> {
  const left = (deadlineOf(task) ?? 0) - tasks.sessions.now()
  const tools = agentToolFolders(task.agent)
  return startAgent(tasks.sessions, session.id, ADAPTERS[task.agent].launch(launch), {
    tag: tagOf(task.id, task.tries),
    prompt,
    taskEnv: { ...(tools.length > 0 && { PATH: [...tools, DEFAULT_PATH].join(':') }), ...spec.env },
    timeoutMs: Math.max(1, left),
  })
}

/** The smaller of what the task and its context may still cost; null: no limit. */
async function remainingBudget({ sessions }: TaskContext, task: TaskRow): Promise<number | null> {
  const context = await findContext(sessions.store, task.context_folder)
  const spent = task.total_cost_usd ?? 0
  const limits = [
    task.max_cost_usd === null ? null : task.max_cost_usd - spent,
    context?.max_cost_usd == null ? null : context.max_cost_usd - context.total_cost_usd - spent,
  ].filter(limit => limit !== null)
  return limits.length === 0 ? null : Math.min(...limits)
}

type Ending = 'stopped' | 'budget' | 'max_turns'

/** Compares turns and cost with their limits, and remembers why an agent was ended. */
class Watch {
  readonly #parser: AgentParser
  readonly #maxTurns: number | null
  readonly #maxCostUsd: number | null
  #ending: Ending | null = null

  constructor(parser: AgentParser, maxTurns: number | null, maxCostUsd: number | null) {
    this.#parser = parser
    this.#maxTurns = maxTurns
    this.#maxCostUsd = maxCostUsd
  }

  get ending(): Ending | null {
    return this.#ending
  }

  /** False if the agent is being ended already. */
  begin(why: Ending): boolean {
    if (this.#ending !== null) return false
    this.#ending = why
    return true
  }

  /** The limit that is reached with the event. */
  take({ type }: ParsedEvent): Ending | null {
    if (type !== 'usage') return null
    const { totalCostUsd, numTurns } = this.#parser.soFar()
    if (this.#maxCostUsd !== null && totalCostUsd !== null && totalCostUsd >= this.#maxCostUsd) return 'budget'
    return this.#maxTurns !== null && numTurns > this.#maxTurns ? 'max_turns' : null
  }
}

async function conclude(
  tasks: TaskContext,
  parser: AgentParser,
  { exitCode, timedOut, stderr, isLost, pid }: AgentEnd & { pid: number },
  watch: Watch,
  session: SessionRecord,
): Promise<Conclusion> {
  const { ending } = watch
  const live = tasks.sessions.live.get(session.id)
  const hit = live ? await processLimitHit(tasks.sessions, live, pid, exitCode) : null
  const wasStopped = ending === 'stopped'
  const byWatch = ending === 'stopped' ? null : ending
  const conclusion = parser.conclude({ exitCode, timedOut, wasStopped, stderr, limitHit: byWatch ?? reachedLimit(hit) })
  return isLost && !wasStopped ? { ...conclusion, ...(await lost(tasks, session)) } : conclusion
}

/** The limit in the word that adapters use. */
const reachedLimit = (hit: LimitHit | null): string | null => hit?.limit.replace(/_(mb|limit)$/, '') ?? null

function overBudget(parser: AgentParser): Conclusion {
  const nothing = parser.conclude({ exitCode: null, timedOut: false, wasStopped: false, stderr: '', limitHit: 'budget' })
  return { ...nothing, errorMessage: 'the context has reached its budget; raise context_max_cost_usd to continue it' }
}

async function lost({ sessions }: TaskContext, { id, name }: SessionRecord): Promise<Partial<Conclusion>> {
  const { status, reason, error_message } = (await findSession(sessions, id)) ?? GONE
  if (reason === 'out_of_memory')
    return {
      outcome: 'CONTAINER_FAILED',
      reason: 'out_of_memory',
      errorMessage: `the session ${name} ran out of memory; give the task more with memory_mb`,
    }
  const why = error_message ?? `it is ${status} (${reason})`
  return {
    outcome: 'CONTAINER_FAILED',
    reason: 'machine_lost',
    errorMessage: `the session ${name} ended while the agent ran: ${why}`,
  }
}

const GONE = { status: 'terminated', reason: 'machine_missing', error_message: null } as const
