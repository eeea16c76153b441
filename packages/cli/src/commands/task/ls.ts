// `sandglass task ls`.
import type { TaskFilter } from '@sandglass/sdk'
import type { Context, Input } from '../../command.ts'
import { toJson } from '../../output/show-session.ts'
import { noArguments, text } from '../../parser/parse.ts'
import { taskTable } from '../../task-view/task-table.ts'
import { findTask } from './find-task.ts'

const SHOWN = 20

export async function run(input: Input, { connect, json, print, say }: Context): Promise<number> {
  noArguments(input)
  const { flags } = input
  const client = await connect()
  const group = text(flags.group)
  const filter: TaskFilter = {
    status: text(flags.status) as TaskFilter['status'],
    context: text(flags.context),
    group: group === undefined ? undefined : (await client.tasks.get(await findTask(client, group))).groupId,
  }
  const page = flags.all ? undefined : await client.tasks.page({ ...filter, limit: SHOWN })
  const found = page?.items ?? (await client.tasks.list(filter))
  if (json) print(toJson(found))
  else if (found.length > 0) print(taskTable(found, process.stdout))
  else say('no tasks; `sandglass run -a AGENT -p PROMPT` creates one\n')
  if (page !== undefined && page.total > found.length && !json) say(`${page.total - found.length} more; --all shows them\n`)
  return 0
}
