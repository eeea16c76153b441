// `sandglass context ls`.
import type { ContextInfo } from '@sandglass/sdk'
import type { Context, Input } from '../../command.ts'
import { toJson } from '../../output/show-session.ts'
import { table } from '../../output/table.ts'
import { fromNow } from '../../parser/duration.ts'
import { noArguments } from '../../parser/parse.ts'
import { costText } from '../../task-view/task-text.ts'

export async function run(input: Input, { connect, json, print, say }: Context): Promise<number> {
  noArguments(input)
  const found = await (await connect()).contexts.list()
  if (json) print(toJson(found))
  else if (found.length > 0)
    print(table(['CONTEXT', 'AGENTS', 'REPLIES', 'COST', 'RUNNING', 'USED'], found.map(rowOf), process.stdout))
  else say('no contexts; `sandglass run -a AGENT --context ID -p PROMPT` begins one\n')
  return 0
}

const rowOf = ({ id, agents, replies, totalCostUsd, runningTask, updatedAt }: ContextInfo): string[] => [
  id,
  agents.join(', ') || '-',
  String(replies),
  costText(totalCostUsd),
  runningTask ?? '-',
  fromNow(updatedAt),
]
