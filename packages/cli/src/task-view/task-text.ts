// Parts of a task as text, for tables and lines.
import type { TaskInfo } from '@sandglass/sdk'
import { shortDuration } from '../parser/duration.ts'

/** $0.1234 below a dollar, $12.34 above; `-` if nobody knows. */
export const costText = (usd: number | null): string => (usd === null ? '-' : `$${usd.toFixed(usd > 0 && usd < 0.1 ? 4 : 2)}`)

/** SUCCESS, or the outcome with its reason, such as CONTAINER_FAILED (auth); before the end, the status. */
export function outcomeText({ status, outcome, reason }: Pick<TaskInfo, 'status' | 'outcome' | 'reason'>): string {
  if (outcome === null) return status
  return outcome === 'SUCCESS' || reason === null || reason === outcome.toLowerCase() ? outcome : `${outcome} (${reason})`
}

/** How long the agent has worked. */
export function timeText({ durationMs, startedAt, endedAt }: TaskInfo, now = Date.now()): string {
  if (durationMs !== null) return shortDuration(durationMs)
  if (startedAt === null) return '-'
  return shortDuration((endedAt === null ? now : Date.parse(endedAt)) - Date.parse(startedAt))
}

/** passed, or the exit code of the check; `-` for a task without one. */
export const checkText = ({ checkExitCode }: TaskInfo): string =>
  checkExitCode === null ? '-' : checkExitCode === 0 ? 'passed' : `exit ${checkExitCode}`
