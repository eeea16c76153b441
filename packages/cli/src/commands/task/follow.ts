// `sandglass task follow`.
import { toSnake } from '@sandglass/sdk'
import type { Context, Input } from '../../command.ts'
import { safeSink } from '../../exec/output.ts'
import { printableJson } from '../../output/printable.ts'
import { text, usage } from '../../parser/parse.ts'
import { followTasks } from '../../task-view/follow-tasks.ts'
import { exitCodeOf, failureText, isGood } from '../../task-view/outcome.ts'
import { taskArgument } from './find-task.ts'

export async function run(input: Input, context: Context): Promise<number> {
  const { json, print, say } = context
  const raw = input.flags.raw === true
  const tail = tailOf(text(input.flags.tail))
  const client = await context.connect()
  const id = await taskArgument(client, input)
  if (raw && !json) {
    const write = safeSink(process.stdout, false)
    for await (const event of client.tasks.events(id, { tail, raw })) if (event.raw !== undefined) await write(`${event.raw}\n`)
    return exitCodeOf([await client.tasks.wait(id)])
  }
  const { tasks } = await followTasks(client, [await client.tasks.get(id)], { tail, raw, stopsTasks: false }, context)
  for (const task of tasks) {
    if (json) print(`${printableJson(toSnake(task))}\n`)
    else if (!isGood(task)) say(failureText(task))
  }
  return exitCodeOf(tasks)
}

function tailOf(given: string | undefined): number | undefined {
  if (given === undefined) return undefined
  if (!/^\d{1,6}$/.test(given)) throw usage(`--tail takes a number, not ${given}`)
  return Number(given)
}
