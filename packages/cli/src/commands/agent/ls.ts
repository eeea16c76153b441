// `sandglass agent ls`.
import type { AgentInfo } from '@sandglass/sdk'
import type { Context, Input } from '../../command.ts'
import { bytesText } from '../../output/bytes-text.ts'
import { toJson } from '../../output/show-session.ts'
import { table } from '../../output/table.ts'
import { noArguments } from '../../parser/parse.ts'

export async function run(input: Input, { connect, json, print, say }: Context): Promise<number> {
  noArguments(input)
  const agents = await (await connect()).agents.list()
  if (json) print(toJson(agents))
  else {
    print(table(['AGENT', 'NAME', 'VERSION', 'INSTALLED', 'KEY'], agents.map(rowOf), process.stdout))
    if (!agents.some(({ hasKey }) => hasKey)) say('no agent has a key; `sandglass init` stores one\n')
  }
  return 0
}

const rowOf = ({ agent, title, version, installed, hasKey, secrets }: AgentInfo): string[] => [
  agent,
  title,
  version,
  installed.map(found => `${found.version} (${bytesText(found.bytes)})`).join(', ') || '-',
  hasKey ? 'stored' : `none (${secrets[0] ?? '-'})`,
]
