// `sandglass context show`.
import type { ContextFile, ContextInfo } from '@sandglass/sdk'
import type { Context, Input } from '../../command.ts'
import { toJson } from '../../output/show-session.ts'
import { table } from '../../output/table.ts'
import { resultWidth } from '../../output/wrap.ts'
import { fromNow } from '../../parser/duration.ts'
import { oneArgument } from '../../parser/parse.ts'
import { cutTo, safeLine } from '../../task-view/agent-text.ts'
import { costText } from '../../task-view/task-text.ts'

export async function run(input: Input, { connect, json, print }: Context): Promise<number> {
  const id = oneArgument(input, 'ID')
  const { contexts } = await connect()
  const info = await contexts.get(id)
  if (json) print(toJson(info))
  else print(contextText(info, await contexts.file(id), process.stdout))
  return 0
}

/** The columns of request and answer share what the others leave of the width. */
const OTHER_COLUMNS = 46
const MIN_TEXT = 20
const MAX_TEXT = 60

/** Facts, then one row for each reply. SECURITY: an agent wrote the answers. */
export function contextText(info: ContextInfo, { replies }: ContextFile, stream: NodeJS.WriteStream): string {
  const { id, model, agents, totalCostUsd, maxCostUsd, sessionId, runningTask } = info
  const facts: [string, string | null][] = [
    ['context', id],
    ['agents', agents.join(', ') || '-'],
    ['model', model],
    ['session', sessionId],
    ['cost', maxCostUsd === null ? costText(totalCostUsd) : `${costText(totalCostUsd)} of ${costText(maxCostUsd)}`],
    ['running', runningTask],
  ]
  const lines = facts.flatMap(([name, value]) => (value === null ? [] : [`${name.padEnd(8)} ${safeLine(value)}\n`]))
  if (replies.length === 0) return lines.join('')
  const width = Math.min(MAX_TEXT, Math.max(MIN_TEXT, Math.floor((resultWidth(stream) - OTHER_COLUMNS) / 2)))
  const rows = replies.map(reply => [
    fromNow(reply.timestamp),
    reply.agent,
    reply.outcome ?? '-',
    costText(reply.totalCostUsd),
    cutTo(width, safeLine(reply.requestText)),
    cutTo(width, safeLine(reply.responseText)),
  ])
  return `${lines.join('')}\n${table(['TIME', 'AGENT', 'OUTCOME', 'COST', 'REQUEST', 'RESPONSE'], rows, stream)}`
}
