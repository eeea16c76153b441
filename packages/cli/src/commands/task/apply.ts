// `sandglass task apply`.
import { SandglassError } from '@sandglass/sdk'
import type { Context, Input } from '../../command.ts'
import { toJson } from '../../output/show-session.ts'
import { text } from '../../parser/parse.ts'
import { applyTask } from '../../repository/apply-task.ts'
import { taskArgument } from './find-task.ts'
import { printPatch } from './patch.ts'

export async function run(input: Input, context: Context): Promise<number> {
  const { flags } = input
  const client = await context.connect()
  const task = await client.tasks.get(await taskArgument(client, input))
  if (task.status !== 'done') throw new SandglassError('TASK_RUNNING', { id: task.id })
  const applied = await applyTask(client, task, text(flags.repo) ?? '.', context)
  if (context.json) context.print(toJson(applied))
  else if (flags.patch) await printPatch(client, task.id)
  return 0
}
