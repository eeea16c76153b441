// How the command line ends after a task: the exit code, and what a failure says.
import { AGENT_FACTS, type TaskReason } from '@sandglass/contract/tables'
import type { TaskInfo } from '@sandglass/sdk'
import { printable } from '../output/printable.ts'
import { shortDuration } from '../parser/duration.ts'
import { safeLine } from './agent-text.ts'
import { costText, outcomeText, timeText } from './task-text.ts'

const TIMED_OUT = 124
const FAILED = 1

/** A task is good if its agent succeeded and its check, if there is one, passed. */
export const isGood = ({ outcome, checkExitCode }: TaskInfo): boolean => outcome === 'SUCCESS' && (checkExitCode ?? 0) === 0

/** 0 if one of the tasks is good, 124 if all of them ended by their timeout, else 1. */
export function exitCodeOf(tasks: readonly TaskInfo[]): number {
  if (tasks.some(isGood)) return 0
  return tasks.every(({ outcome }) => outcome === 'TIMEOUT') ? TIMED_OUT : FAILED
}

/** One line about a task that is good: `done in 3m 10s, 4 turns, $0.12`. */
export function successText(task: TaskInfo): string {
  const { numTurns, totalCostUsd } = task
  const turns = numTurns === 1 ? '1 turn' : `${numTurns} turns`
  const parts = [timeText(task), ...(numTurns > 0 ? [turns] : []), ...(totalCostUsd === null ? [] : [costText(totalCostUsd)])]
  return `done in ${parts.join(', ')}\n`
}

/** Two lines about a task that is not good: what happened, and the next step. */
export function failureText(task: TaskInfo): string {
  const { outcome, checkExitCode, errorMessage } = task
  const what =
    outcome === 'SUCCESS'
      ? `the agent is done, but the check failed: exit code ${checkExitCode}`
      : [outcomeText(task), ...(errorMessage === null ? [] : [safeLine(errorMessage)])].join(': ')
  return `sandglass: ${what}\n  next: ${nextStep(task)}\n`
}

function nextStep(task: TaskInfo): string {
  const { reason, outcome, isRecoverable, id } = task
  if (outcome === 'SUCCESS') return `${again(task)} -p 'make the check pass'`
  if (isRecoverable)
    return `${again(task)} --no-resume${otherModel(task)} -p PROMPT, which begins a new conversation with the same files`
  const step = reason === null ? undefined : NEXT[reason]
  return step === undefined ? `\`sandglass task show ${id}\` and \`sandglass task logs ${id}\` say more` : step(task)
}

/** The conversation goes on where it ended. */
const again = ({ agent, context }: TaskInfo) => `sandglass run -a ${agent} --context ${word(context)}`

/** The context keeps the model that a task named, which may be the one that was refused. */
const otherModel = ({ reason, model }: TaskInfo) => (reason === 'bad_request' && model !== null ? ' --model MODEL' : '')

/** A word that a shell takes as it is. SECURITY: whoever made a context chose its id. */
const word = (text: string) => (/^[\w./:@-]+$/.test(text) ? text : `'${printable(text).replaceAll("'", "'\\''")}'`)

const NEXT: Readonly<Partial<Record<TaskReason, (task: TaskInfo) => string>>> = {
  timeout: task => `${again(task)} -t ${shortDuration(task.timeoutSec * 2000).replaceAll(' ', '')} -p 'go on'`,
  stopped: task => `${again(task)} -p 'go on'`,
  auth: ({ agent }) =>
    `check the key: \`sandglass init\`, or \`sandglass secret set ${AGENT_FACTS[agent]?.credentials[0]?.secret ?? `agent.${agent}`}\``,
  rate_limited: task => `try again later: ${again(task)} --retries 3 --retry-on rate_limited -p 'go on'`,
  overloaded: task => `try again later: ${again(task)} --retries 3 --retry-on overloaded -p 'go on'`,
  model_unreachable: ({ sessionName, id }) =>
    sessionName === null
      ? `sandglass task logs ${id}`
      : `\`sandglass network ${word(sessionName)} --blocked\` shows refused requests`,
  budget: task =>
    task.maxCostUsd === null
      ? `${again(task)} --context-max-cost USD -p 'go on', with more USD than the context has cost`
      : `${again(task)} --max-cost ${Math.ceil(task.maxCostUsd * 2)} -p 'go on'`,
  max_turns: task => `${again(task)} --max-turns ${(task.maxTurns ?? 10) * 2} -p 'go on'`,
  out_of_memory: () => 'give the session more: sandglass run --memory 4g …',
  disk_full: () => 'give the session more: sandglass run --disk 20g …',
}
