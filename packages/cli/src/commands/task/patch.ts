// `sandglass task patch`.
import type { SandboxClient } from '@sandglass/sdk'
import type { Context, Input } from '../../command.ts'
import { safeSink } from '../../exec/output.ts'
import { taskArgument } from './find-task.ts'

export async function run(input: Input, { connect }: Context): Promise<number> {
  const client = await connect()
  await printPatch(client, await taskArgument(client, input))
  return 0
}

/** The bytes as they are; on a terminal without harmful escape sequences. */
export async function printPatch(client: SandboxClient, id: string): Promise<void> {
  const write = safeSink(process.stdout, false)
  for await (const piece of await client.tasks.patch(id)) await write(piece)
}
