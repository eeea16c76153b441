// Goes on with the tasks that an earlier daemon left, and removes old ones.
import { rm } from 'node:fs/promises'
import { join } from 'node:path'
import { namesIn } from '../lib/missing-file.ts'
import { Periodic } from '../lib/periodic.ts'
import { findContext } from '../store/contexts.ts'
import { findTask, retiredTasks } from '../store/tasks.ts'
import { contextFolder, type TaskContext, taskFolder } from './context.ts'
import { wake } from './queue.ts'
import { removeTask } from './tasks.ts'
import { removeOldUploads } from './uploads.ts'

const SWEEP_MS = 60_000
const BATCH = 200

/** Returns the sweep that removes tasks, contexts and uploads whose time is over. */
export function openTasks(tasks: TaskContext): Periodic {
  const sweep = new Periodic({
    work: async () => {
      await removeRetired(tasks)
      await removeOldUploads(tasks)
      return SWEEP_MS
    },
    onError: err => {
      tasks.sessions.log.error({ err }, 'sweep of tasks failed; retrying')
      return SWEEP_MS
    },
    maxMs: SWEEP_MS,
  })
  removeOrphans(tasks).catch(err => tasks.sessions.log.error({ err }, 'folders of removed tasks could not be removed'))
  sweep.start(0)
  wake(tasks)
  return sweep
}

async function removeRetired(tasks: TaskContext): Promise<void> {
  const { store, now, log } = tasks.sessions
  for (const { id } of await retiredTasks(store, now(), BATCH)) {
    try {
      await removeTask(tasks, id)
    } catch (err) {
      log.error({ err, taskId: id }, 'old task could not be removed; the next sweep tries again')
    }
  }
}

/** Folders whose rows are gone: a daemon died while it removed them, or while it created them. */
async function removeOrphans(tasks: TaskContext): Promise<void> {
  const { store, dataDir } = tasks.sessions
  for (const id of await namesIn(join(dataDir, 'tasks')))
    if ((await findTask(store, id)) === undefined) await rm(taskFolder(tasks, id), { recursive: true, force: true })
  for (const folder of await namesIn(join(dataDir, 'contexts')))
    if ((await findContext(store, folder)) === undefined) await rm(contextFolder(tasks, folder), { recursive: true, force: true })
}
