// `sandglass task logs`.
import type { Context, Input } from '../../command.ts'
import { toJson } from '../../output/show-session.ts'
import { safeLines } from '../../task-view/agent-text.ts'
import { taskArgument } from './find-task.ts'

export async function run(input: Input, { connect, json, print, say }: Context): Promise<number> {
  const client = await connect()
  const id = await taskArgument(client, input)
  const stderr = await client.tasks.stderr(id)
  if (json) print(toJson({ taskId: id, stderr }))
  else if (stderr === '') say(`the agent of ${id} has written no error output\n`)
  else print(process.stdout.isTTY ? `${safeLines(stderr).trimEnd()}\n` : stderr)
  return 0
}
