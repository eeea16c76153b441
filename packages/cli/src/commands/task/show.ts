// `sandglass task show`.
import type { TaskInfo } from '@sandglass/sdk'
import type { Context, Input } from '../../command.ts'
import { toJson } from '../../output/show-session.ts'
import { fromNow, shortDuration } from '../../parser/duration.ts'
import { safeLine, safeLines } from '../../task-view/agent-text.ts'
import { checkText, costText, outcomeText, timeText } from '../../task-view/task-text.ts'
import { taskArgument } from './find-task.ts'

export async function run(input: Input, { connect, json, print }: Context): Promise<number> {
  const client = await connect()
  const task = await client.tasks.get(await taskArgument(client, input))
  print(json ? toJson(task) : taskText(task))
  return 0
}

/** One line for each fact, then prompt and answer. SECURITY: the agent names its model and its conversation. */
export function taskText(task: TaskInfo): string {
  const { usage, prompt, responseText } = task
  const cached = usage.cacheReadInputTokens
  const rows: [string, string | null][] = [
    ['task', task.id],
    ['agent', [task.agent, task.agentVersion, task.model].filter(part => part !== null).join(' ')],
    ['status', outcomeText(task)],
    ['error', task.errorMessage],
    ['context', task.context],
    ['session', task.sessionName ?? task.sessionId],
    ['conversation', task.agentSessionId],
    ['attempt', task.groupId === task.id && task.attempt === 1 ? null : `${task.attempt} of ${task.groupId}`],
    ['cost', costText(task.totalCostUsd)],
    ['tokens', `${usage.inputTokens} in${cached > 0 ? ` (and ${cached} from the cache)` : ''}, ${usage.outputTokens} out`],
    ['turns', String(task.numTurns)],
    ['tries', task.tries > 1 ? String(task.tries) : null],
    ['check', task.checkExitCode === null ? null : checkText(task)],
    ['branch', task.hasPatch ? (task.branch ?? '-') : null],
    ['time', `${timeText(task)} of ${shortDuration(task.timeoutSec * 1000)}`],
    ['created', `${task.createdAt} (${fromNow(task.createdAt)})`],
  ]
  const facts = rows.flatMap(([name, value]) => (value === null ? [] : [`${name.padEnd(13)} ${safeLine(value)}\n`]))
  const answer = responseText === null || responseText === '' ? '' : `\n${safeLines(responseText).trimEnd()}\n`
  return `${facts.join('')}\n> ${safeLines(prompt).trimEnd().replaceAll('\n', '\n> ')}\n${answer}`
}
