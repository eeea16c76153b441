// The last line of the live view: how long the task has run, what is left, and what it has cost.
import type { TaskEvent, TaskInfo } from '@sandglass/sdk'
import { shortDuration } from '../parser/duration.ts'
import { safeLine } from './agent-text.ts'
import { costText } from './task-text.ts'

/** What the line shows of one task, kept up to date from its events. */
export type Progress = {
  agent: string
  status: string
  startedAt: number | null
  deadlineAt: number | null
  turns: number
  costUsd: number | null
}

export const progressOf = ({ agent, status, startedAt, deadlineAt, numTurns, totalCostUsd }: TaskInfo): Progress => ({
  agent,
  status,
  startedAt: startedAt === null ? null : Date.parse(startedAt),
  deadlineAt: deadlineAt === null ? null : Date.parse(deadlineAt),
  turns: numTurns,
  costUsd: totalCostUsd,
})

/** `timeoutSec` gives the deadline when the agent begins. */
export function withEvent(progress: Progress, event: TaskEvent, timeoutSec: number): Progress {
  const { type, at, text, totalCostUsd, numTurns } = event
  const status = event.status === 'installing' ? text : event.status
  if (type === 'status' && status !== undefined) {
    const begins = status === 'running' && progress.startedAt === null ? Date.parse(at) : undefined
    return begins === undefined
      ? { ...progress, status }
      : { ...progress, status, startedAt: begins, deadlineAt: begins + timeoutSec * 1000 }
  }
  const turns = numTurns ?? (type === 'usage' ? progress.turns + 1 : progress.turns)
  return { ...progress, turns, costUsd: totalCostUsd ?? progress.costUsd }
}

/** `claude  2m 10s  57m left  4 turns  $0.12`; a task that waits shows its status alone. */
export function statusLine(progress: Progress, now: number): string {
  const { agent, status, startedAt, deadlineAt, turns, costUsd } = progress
  const parts = [agent]
  if (startedAt === null) parts.push(safeLine(status))
  else parts.push(shortDuration(Math.max(0, now - startedAt)))
  if (startedAt !== null && deadlineAt !== null) parts.push(`${shortDuration(Math.max(0, deadlineAt - now))} left`)
  if (turns > 0) parts.push(turns === 1 ? '1 turn' : `${turns} turns`)
  if (costUsd !== null && costUsd > 0) parts.push(costText(costUsd))
  return parts.join('  ')
}
