// `sandglass agent rm`.
import type { Context, Input } from '../../command.ts'
import { toJson } from '../../output/show-session.ts'
import { agentName } from '../../parser/agent-names.ts'
import { oneArgument } from '../../parser/parse.ts'

export async function run(input: Input, { connect, json, print }: Context): Promise<number> {
  const agent = agentName(oneArgument(input, 'AGENT'))
  await (await connect()).agents.remove(agent)
  print(json ? toJson({ removed: [agent] }) : `${agent}\n`)
  return 0
}
