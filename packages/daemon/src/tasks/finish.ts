// What comes after the agent: the check command, the changes in the repository, the agent's state, context.json, and the end of the task. A step
// that fails adds a warning to the events and does not change the outcome. Every step can be repeated after a crash.
import { type TaskSpec, WORKSPACE } from '@sandglass/contract'
import { stopSession } from '../sessions/lifecycle/stop.ts'
import { getSession } from '../sessions/live.ts'
import type { TaskRow } from '../store/tables.ts'
import { endTask, patchTask } from '../store/tasks.ts'
import { runInSession, type ScriptResult } from './agent-run/in-session.ts'
import { addStatus, announceChange, type TaskContext } from './context.ts'
import { writeContextFile } from './contexts/context-file.ts'
import { saveNetworkLog } from './contexts/network-log.ts'
import type { LogWriter } from './event-log.ts'
import { saveState } from './results/agent-state.ts'
import { collectRepository } from './results/repository.ts'

const CHECK_MS = 30 * 60_000
const CHECK_CHARACTERS = 4000
const STEP_MS = 15 * 60_000
/** How long the results of a task that was stopped may take. */
const STOPPED_MS = 60_000

/**
 * `hasRun` is false if the agent never started: then there is nothing to check and nothing to take out. SECURITY: git and the check run what the
 * agent left in the session, for as long as it likes: a stop ends them.
 */
export async function finishTask(
  tasks: TaskContext,
  task: TaskRow,
  spec: TaskSpec,
  log: LogWriter,
  { hasRun, stop }: { hasRun: boolean; stop: AbortSignal },
): Promise<void> {
  const { sessions } = tasks
  const isRunning = await isSessionRunning(tasks, task.session_id)
  const ends = stop.aborted ? [AbortSignal.timeout(STOPPED_MS)] : [stop, AbortSignal.timeout(CHECK_MS + STEP_MS)]
  const signal = AbortSignal.any([sessions.closing, ...ends])
  const changes: Partial<TaskRow> = {}
  if (isRunning && task.session_id !== null) {
    const at = { taskId: task.id, sessionId: task.session_id }
    // Before the check, so that what it writes is no work of the agent.
    const { branch } = task
    if (hasRun && branch !== null) {
      const hasPatch = await step('the patch', () => collectRepository(tasks, { ...at, branch }, signal))
      changes.has_patch = hasPatch ? 1 : 0
    }
    if (hasRun && spec.check !== undefined && task.check_exit_code === null) {
      await addStatus(tasks, task.id, log, 'checking')
      const argv = ['sh', '-c', spec.check]
      const run = { argv, cwd: WORKSPACE, timeoutMs: CHECK_MS, ...(spec.env && { env: spec.env }) }
      const result = await step('the check command', () => runInSession(sessions, at.sessionId, run, signal))
      changes.check_exit_code = result?.exitCode ?? null
      if (result) await addStatus(tasks, task.id, log, 'checked', checkText(result))
    }
    const state = { folder: task.context_folder, agent: task.agent, sessionId: at.sessionId }
    if (hasRun && spec.session === undefined) await step('the state of the agent', () => saveState(tasks, state, signal))
    if (spec.session === undefined) await step('the network log', () => saveNetworkLog(tasks, task.context_folder, at.sessionId))
  }
  sessions.closing.throwIfAborted()
  await addStatus(tasks, task.id, log, 'done', `${task.outcome}${task.error_message === null ? '' : `: ${task.error_message}`}`)
  await end(tasks, task, spec, { ...changes, event_count: log.end.nextId - 1 })
  // Nobody has to wait for it: the next task of the context begins when this function has returned.
  if (isRunning && task.session_id !== null && spec.session === undefined && spec.keep_session !== true)
    await stopSession(sessions, task.session_id, sessions.log).catch(err =>
      sessions.log.warn({ err, taskId: task.id }, 'session of a task could not be stopped; it stops when it expires'),
    )

  async function step<T>(what: string, work: () => Promise<T>): Promise<T | null> {
    try {
      return await work()
    } catch (error) {
      sessions.closing.throwIfAborted()
      const isStopped = signal.aborted && stop.aborted
      const why = isStopped ? 'the task was stopped' : error instanceof Error ? error.message : String(error)
      sessions.log.warn({ err: error, taskId: task.id, step: what }, 'step after a task failed')
      await addStatus(tasks, task.id, log, 'warning', `${what} failed: ${why}`)
      return null
    }
  }
}

/** The end of its output says why a check failed. */
function checkText({ exitCode, stdout, stderr }: ScriptResult): string {
  const said = `${stdout}${stderr}`.trim().slice(-CHECK_CHARACTERS)
  return `exit code ${exitCode}${said === '' ? '' : `: ${said}`}`
}

async function isSessionRunning({ sessions }: TaskContext, id: string | null): Promise<boolean> {
  if (id === null || !sessions.live.get(id)) return false
  return (await getSession(sessions, id)).status === 'running'
}

/** The task is done for its followers when its row says so; the reply is written before. */
async function end(tasks: TaskContext, task: TaskRow, spec: TaskSpec, changes: Partial<TaskRow>): Promise<void> {
  const { sessions } = tasks
  const now = sessions.now()
  const isOfCaller = spec.context !== undefined
  const last: Partial<TaskRow> = {
    ...changes,
    phase: 'ended',
    ended_at: now,
    // Tasks of a caller's context stay with it; others go after the retention.
    delete_at: isOfCaller ? null : now + sessions.config.tasks.retention_seconds * 1000,
  }
  await patchTask(sessions.store, task.id, last)
  try {
    if (task.started_at !== null) await writeContextFile(tasks, task.context_folder)
  } catch (err) {
    sessions.log.warn({ err, taskId: task.id }, 'context.json could not be written')
  }
  await endTask(sessions.store, task, now)
  announceChange(tasks, task.id)
  sessions.log.info({ taskId: task.id, outcome: task.outcome, reason: task.reason }, 'task ended')
}
