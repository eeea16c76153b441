// `sandglass task stop`.
import type { TaskInfo } from '@sandglass/sdk'
import type { Context, Input } from '../../command.ts'
import { toJson } from '../../output/show-session.ts'
import { usage } from '../../parser/parse.ts'
import { outcomeText } from '../../task-view/task-text.ts'
import { findTask } from './find-task.ts'

/** A failure does not stop the others; it decides the exit code. */
export async function run({ args, rest }: Input, { connect, json, print, report }: Context): Promise<number> {
  const given = [...args, ...(rest ?? [])]
  if (given.length === 0) throw usage('TASK is missing')
  const client = await connect()
  const stopped: TaskInfo[] = []
  let code = 0
  for (const name of given) {
    try {
      const task = await client.tasks.stop(await findTask(client, name))
      stopped.push(task)
      if (!json) print(`${task.id}  ${outcomeText(task)}\n`)
    } catch (error) {
      code = await report(error)
    }
  }
  if (json && stopped.length > 0) print(toJson(given.length === 1 ? stopped[0] : stopped))
  return code
}
