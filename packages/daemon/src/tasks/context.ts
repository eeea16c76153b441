// tasks/ runs coding agents: a prompt goes in, events come out, one outcome ends it. queue.ts decides when a task runs, run.ts is the life of
// one, agent-run/ is one run of the agent in its session, contexts/ keeps conversations, results/ collects what the agent has changed.
// This is what every part works with; daemon.ts builds it once.
import { join } from 'node:path'
import { Changes } from '../sessions/changes.ts'
import type { SessionContext } from '../sessions/context.ts'
import type { LogWriter } from './event-log.ts'

export type TaskContext = {
  readonly sessions: SessionContext
  /** Tasks that this daemon runs, by id. */
  readonly running: Map<string, RunningTask>
  /** Wakes the followers of a task's events, by task id: each reads the log itself. */
  readonly changes: Map<string, Changes>
}

export type RunningTask = {
  /** Aborts when the task has to stop. */
  readonly stop: AbortController
  /** Settles when the task has ended, or when the daemon stops. */
  readonly done: Promise<void>
}

export const taskContext = (sessions: SessionContext): TaskContext => ({
  sessions,
  running: new Map(),
  changes: new Map(),
})

/** Resolves at the next change of a task's events or state. Call it before reading either. */
export function nextChange({ changes }: TaskContext, id: string, signal: AbortSignal): Promise<void> {
  const known = changes.get(id) ?? new Changes()
  changes.set(id, known)
  return known.next(signal)
}

export function announceChange({ changes }: TaskContext, id: string): void {
  const known = changes.get(id)
  changes.delete(id)
  known?.announce()
}

/** Adds an event of Sandglass itself to the log of a task, and wakes its followers. */
export async function addStatus(tasks: TaskContext, id: string, log: LogWriter, status: string, text?: string): Promise<void> {
  const { try: tryNumber, offset } = log.end
  const event = { type: 'status' as const, status, ...(text !== undefined && { text }) }
  await log.append([{ at: tasks.sessions.now(), try: tryNumber, offset, events: [event] }])
  announceChange(tasks, id)
}

/** No task is added to a context while it is being removed. */
export const withContext = <T>({ sessions }: TaskContext, folder: string, work: () => Promise<T>): Promise<T> =>
  sessions.mutex.run(`context ${folder}`, work)

/** The folder with the events and results of a task. */
export const taskFolder = ({ sessions }: TaskContext, id: string): string => join(sessions.dataDir, 'tasks', id)
export const contextFolder = ({ sessions }: TaskContext, folder: string): string => join(sessions.dataDir, 'contexts', folder)
export const uploadFolder = ({ sessions }: TaskContext): string => join(sessions.dataDir, 'uploads')
