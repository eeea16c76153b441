// `sandglass task result`.
import type { Context, Input } from '../../command.ts'
import { toJson } from '../../output/show-session.ts'
import { safeLines } from '../../task-view/agent-text.ts'
import { exitCodeOf, failureText, isGood } from '../../task-view/outcome.ts'
import { taskArgument } from './find-task.ts'

export async function run(input: Input, { connect, json, print, say }: Context): Promise<number> {
  const client = await connect()
  const id = await taskArgument(client, input)
  const result = await client.tasks.result(id)
  const task = await client.tasks.get(id)
  if (json) print(toJson(result))
  else {
    const { responseText } = result
    // A program gets the answer as it is; a terminal gets no escape sequences.
    if (responseText !== '') print(`${process.stdout.isTTY ? safeLines(responseText) : responseText}\n`)
    if (!isGood(task)) say(failureText(task))
  }
  return exitCodeOf([task])
}
