// The life of one task: session, files, agent, and what comes after it. Each phase is stored before it begins, so that a daemon that finds the task
// after a crash goes on with that phase: the agent itself has gone on all the time.
import {
  type InstallProgress,
  isRecoverable,
  type Outcome,
  SandglassError,
  type TaskReason,
  type TaskSpec,
  type Usage,
} from '@sandglass/contract'
import type { Conclusion } from '../agents/adapters/adapter.ts'
import { NOTHING_FOUND } from '../agents/adapters/outcome.ts'
import { addUsage } from '../agents/adapters/untrusted.ts'
import { ensureAgent } from '../agents/packages/install.ts'
import { progressText } from '../agents/packages/report.ts'
import { getSession } from '../sessions/live.ts'
import type { SessionRecord } from '../sessions/session-record.ts'
import type { TaskRow } from '../store/tables.ts'
import { findTask, patchTask } from '../store/tasks.ts'
import { putFiles } from './agent-run/prepare.ts'
import { runAgent } from './agent-run/run-agent.ts'
import { sessionOfTask } from './agent-run/session-of-task.ts'
import { addStatus, type TaskContext, taskFolder } from './context.ts'
import { LogWriter } from './event-log.ts'
import { finishTask } from './finish.ts'
import { branchBefore } from './results/repository.ts'
import { resumeOf } from './resume.ts'
import { specOf } from './task-record.ts'

/** Runs a task to its end. Rejects only if the daemon stops or cannot store: the next daemon then goes on. */
export async function runTask(tasks: TaskContext, id: string, stop: AbortSignal): Promise<void> {
  const { store } = tasks.sessions
  const found = await findTask(store, id)
  if (found === undefined || found.status === 'done') return
  const spec = specOf(tasks.sessions, found)
  await using log = await LogWriter.open(taskFolder(tasks, id))
  const run = new TaskRun(tasks, found, spec, log, stop)
  try {
    await run.toEnd()
  } catch (error) {
    // A daemon that stops leaves the task as it is stored.
    if (tasks.sessions.closing.aborted) throw error
    await run.fail(error)
  }
}

class TaskRun {
  readonly #tasks: TaskContext
  #task: TaskRow
  readonly #spec: TaskSpec
  readonly #log: LogWriter
  readonly #stop: AbortSignal

  constructor(tasks: TaskContext, task: TaskRow, spec: TaskSpec, log: LogWriter, stop: AbortSignal) {
    this.#tasks = tasks
    this.#task = task
    this.#spec = spec
    this.#log = log
    this.#stop = stop
  }

  async toEnd(): Promise<void> {
    if (this.#task.phase === 'waiting' || this.#task.phase === 'preparing') await this.#prepare()
    if (this.#task.phase === 'agent' || this.#task.phase === 'recovery') await this.#runAgent()
    await finishTask(this.#tasks, this.#task, this.#spec, this.#log, { hasRun: true, stop: this.#stop })
  }

  /** An error of Sandglass itself: the task ends with it. */
  async fail(error: unknown): Promise<void> {
    const isOurs = error instanceof SandglassError
    if (!isOurs && !this.#stop.aborted) this.#tasks.sessions.log.error({ err: error, taskId: this.#task.id }, 'task failed')
    const message = error instanceof Error ? error.message : String(error)
    const conclusion = this.#stop.aborted
      ? notRun('stopped', 'the task was stopped before its agent started')
      : notRun('start_failed', isOurs && error.hint ? `${message}; ${error.hint}` : message)
    if (this.#task.outcome === null) await this.#conclude(conclusion, null)
    const hasRun = this.#task.started_at !== null
    await finishTask(this.#tasks, this.#task, this.#spec, this.#log, { hasRun, stop: this.#stop })
  }

  async #prepare(): Promise<void> {
    await this.#change({ phase: 'preparing', status: 'running' }, 'preparing')
    this.#stop.throwIfAborted()
    const signal = AbortSignal.any([this.#stop, this.#tasks.sessions.closing])
    if (this.#spec.session === undefined) await this.#install(signal)
    const record = await sessionOfTask(this.#tasks, this.#task, this.#spec, signal)
    await this.#patch({
      session_id: record.id,
      session_name: record.name,
      agent_version: versionOf(record, this.#task.agent),
      resumed_from: await resumeOf(this.#tasks, this.#task, this.#spec),
      branch: this.#task.branch ?? (await branchBefore(this.#tasks, this.#task)),
    })
    await putFiles(this.#tasks, this.#task, this.#spec, record.id, signal)
    this.#stop.throwIfAborted()
    await this.#change({ phase: 'agent', started_at: this.#tasks.sessions.now(), tries: 1 }, 'running')
  }

  /** Installs the agent if it is missing, and reports the progress as status events. */
  async #install(signal: AbortSignal): Promise<void> {
    let told = 0
    let telling: Promise<void> = Promise.resolve()
    const onProgress = (progress: InstallProgress) => {
      const now = this.#tasks.sessions.now()
      if (now - told < TELL_EVERY_MS) return
      told = now
      telling = telling.then(() => this.#tell('installing', progressText(progress)))
    }
    await ensureAgent(this.#tasks.sessions, this.#task.agent, onProgress, signal)
    await telling
  }

  async #runAgent(): Promise<void> {
    for (;;) {
      const { conclusion, exitCode } = await this.#runOnce()
      const next = this.#nextTry(conclusion)
      await this.#addUp(conclusion)
      if (next === null) return await this.#conclude(conclusion, exitCode)
      const text = `${conclusion.outcome}: ${conclusion.errorMessage ?? conclusion.reason}`
      await this.#change({ tries: this.#task.tries + 1 }, next, text)
    }
  }

  async #runOnce() {
    const { sessions } = this.#tasks
    const session = await getSession(sessions, this.#task.session_id ?? '')
    const isRecovery = this.#isRecovery
    return runAgent(this.#tasks, {
      task: this.#task,
      spec: this.#spec,
      session,
      log: this.#log,
      stop: this.#stop,
      prompt: isRecovery ? (this.#spec.recovery_prompt ?? this.#task.prompt) : this.#task.prompt,
      resume: isRecovery ? null : this.#task.resumed_from,
      onSession: async agentSessionId => this.#patch({ agent_session_id: agentSessionId }),
    })
  }

  get #isRecovery(): boolean {
    return this.#task.phase === 'recovery'
  }

  #nextTry(conclusion: Conclusion): 'retrying' | 'recovering' | null {
    if (this.#stop.aborted || conclusion.outcome === 'SUCCESS' || conclusion.outcome === 'TIMEOUT') return null
    const { recovery_prompt, retries = 0, retry_on = PASSING } = this.#spec
    if (recovery_prompt !== undefined && !this.#isRecovery && isRecoverable(conclusion.outcome, conclusion.reason))
      return 'recovering'
    const mayRetry = retry_on.includes(conclusion.outcome) || retry_on.includes(conclusion.reason)
    return mayRetry && this.#task.tries <= retries ? 'retrying' : null
  }

  /** Cost, turns and tokens of all tries. */
  async #addUp({ usage, totalCostUsd, numTurns, agentSessionId }: Conclusion): Promise<void> {
    const sum = addUsage(JSON.parse(this.#task.task_usage) as Usage, usage)
    await this.#patch({
      task_usage: JSON.stringify(sum),
      total_cost_usd: totalCostUsd === null ? this.#task.total_cost_usd : (this.#task.total_cost_usd ?? 0) + totalCostUsd,
      num_turns: this.#task.num_turns + numTurns,
      agent_session_id: agentSessionId ?? this.#task.agent_session_id,
    })
  }

  async #conclude({ outcome, reason, errorMessage, responseText }: Conclusion, exitCode: number | null): Promise<void> {
    await this.#patch({
      outcome,
      reason,
      error_message: errorMessage,
      response_text: responseText,
      exit_code: exitCode,
      phase: 'finishing',
    })
  }

  async #change(patch: Partial<TaskRow>, status: string, text?: string): Promise<void> {
    await this.#patch({ ...patch, ...(status === 'recovering' && { phase: 'recovery' as const, resumed_from: null }) })
    await this.#tell(status, text)
  }

  async #tell(status: string, text?: string): Promise<void> {
    await addStatus(this.#tasks, this.#task.id, this.#log, status, text)
  }

  async #patch(patch: Partial<TaskRow>): Promise<void> {
    const counted = { ...patch, event_count: this.#log.end.nextId - 1 }
    await patchTask(this.#tasks.sessions.store, this.#task.id, counted)
    this.#task = { ...this.#task, ...counted }
  }
}

/** Failures that pass by themselves. */
const PASSING: readonly (Outcome | TaskReason)[] = ['rate_limited', 'overloaded', 'model_unreachable']
const TELL_EVERY_MS = 1000

/** The conclusion of a task whose agent did not run. */
function notRun(reason: Conclusion['reason'], errorMessage: string): Conclusion {
  const { hasResult, failure, ...nothing } = NOTHING_FOUND
  return { ...nothing, outcome: 'CONTAINER_FAILED', reason, errorMessage }
}

const versionOf = ({ agent_packages }: SessionRecord, agent: TaskRow['agent']): string | null =>
  agent_packages.find(given => given.agent === agent)?.version ?? null
