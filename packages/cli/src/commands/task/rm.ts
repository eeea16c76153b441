// `sandglass task rm`.
import { type SandboxClient, SandglassError } from '@sandglass/sdk'
import type { Context, Input } from '../../command.ts'
import { toJson } from '../../output/show-session.ts'
import { usage } from '../../parser/parse.ts'
import { findTask } from './find-task.ts'

/** A failure does not stop the others; it decides the exit code. */
export async function run({ args, rest, flags }: Input, { connect, json, print, report }: Context): Promise<number> {
  const given = [...args, ...(rest ?? [])]
  if (given.length === 0) throw usage('TASK is missing')
  const client = await connect()
  const removed: string[] = []
  let code = 0
  for (const name of given) {
    try {
      const id = await findTask(client, name)
      await remove(client, id, flags.force === true)
      removed.push(id)
      if (!json) print(`${id}\n`)
    } catch (error) {
      if (flags.force && error instanceof SandglassError && error.is('TASK_NOT_FOUND')) continue
      code = await report(error)
    }
  }
  if (json && (removed.length > 0 || code === 0)) print(toJson({ removed }))
  return code
}

/** With force, a task that runs is stopped first. */
async function remove({ tasks }: SandboxClient, id: string, isForced: boolean): Promise<void> {
  try {
    await tasks.remove(id)
  } catch (error) {
    if (!isForced || !(error instanceof SandglassError) || !error.is('TASK_RUNNING')) throw error
    await tasks.stop(id)
    await tasks.wait(id)
    await tasks.remove(id)
  }
}
