// Decides which queued tasks run: oldest first, a bounded number at once, and one at a time in each context.
import { patchTask, type QueuedTask, unendedTasks } from '../store/tasks.ts'
import type { TaskContext } from './context.ts'
import { runTask } from './run.ts'

const RETRY_MS = 5000

/** Starts every queued task that may run. Called when a task is created, when one ends, and when the daemon starts. */
export async function pump(tasks: TaskContext): Promise<void> {
  const { sessions } = tasks
  await sessions.mutex.run('task queue', async () => {
    if (sessions.closing.aborted) return
    const rows = await unendedTasks(sessions.store)
    const isBusy = (row: QueuedTask) =>
      rows.some(other => other.context_folder === row.context_folder && tasks.running.has(other.id))
    for (const row of byUrgency(rows)) {
      if (tasks.running.has(row.id)) continue
      const hasPlace = tasks.running.size < sessions.config.tasks.max_running && !isBusy(row)
      if (hasPlace || isCancelled(row)) begin(tasks, row)
    }
  })
}

/** It only has to be ended, which takes no place. */
const isCancelled = (row: QueuedTask) => row.status === 'queued' && row.stop_requested === 1

/** Tasks whose agent runs already come first. */
const byUrgency = (rows: readonly QueuedTask[]): QueuedTask[] =>
  rows.toSorted((a, b) => Number(a.status === 'queued') - Number(b.status === 'queued'))

function begin(tasks: TaskContext, row: QueuedTask): void {
  const { sessions } = tasks
  const stop = new AbortController()
  if (row.stop_requested === 1) stop.abort()
  const done = work()
  tasks.running.set(row.id, { stop, done })

  async function work(): Promise<void> {
    try {
      await runTask(tasks, row.id, stop.signal)
    } catch (err) {
      if (sessions.closing.aborted) return
      sessions.log.error({ err, taskId: row.id }, 'task could not be run; trying again')
      setTimeout(() => wake(tasks), RETRY_MS).unref()
    } finally {
      tasks.running.delete(row.id)
      wake(tasks)
    }
  }
}

/** Calls pump without waiting for it. */
export function wake(tasks: TaskContext): void {
  pump(tasks).catch(err => tasks.sessions.log.error({ err }, 'queue of tasks could not be read'))
}

/** Stops a task from anywhere. It ends with the outcome CONTAINER_FAILED and the reason `stopped`; one that has ended stays as it is. */
export async function requestStop(tasks: TaskContext, id: string): Promise<void> {
  await patchTask(tasks.sessions.store, id, { stop_requested: 1 })
  if (!tasks.running.has(id)) await pump(tasks)
  const running = tasks.running.get(id)
  running?.stop.abort()
  await running?.done
}

/** Waits until this daemon works on no task. The agents keep running. */
export async function closeTasks(tasks: TaskContext): Promise<void> {
  await Promise.allSettled([...tasks.running.values()].map(({ done }) => done))
}
