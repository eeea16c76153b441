// How an execution ended.
import type { Outcome, TaskReason } from '@sandglass/contract/tables'
import type { TaskResult, TokenUsage } from '../../wire-types.ts'

export type ExecutionResult = {
  outcome: Outcome
  /** Why it has its outcome. */
  reason: TaskReason
  /** The agent's own id of the conversation, to resume it; null if the agent did not begin. */
  sessionId: string | null
  responseText: string
  durationMs: number
  /** Null if neither the agent nor the price table knows. */
  totalCostUsd: number | null
  numTurns: number
  isError: boolean
  usage: TokenUsage
  exitCode: number | null
  /** For people; null for a success. */
  errorMessage: string | null
  /** The task that the daemon ran; null if none was created. */
  taskId: string | null
}

export function executionResult(result: TaskResult): ExecutionResult {
  const { outcome, reason, sessionId, responseText, durationMs, totalCostUsd, numTurns, isError, usage, exitCode } = result
  const numbers = { durationMs, totalCostUsd, numTurns, isError, usage, exitCode }
  return { outcome, reason, sessionId, responseText, ...numbers, errorMessage: result.errorMessage, taskId: result.taskId }
}

/** The result of an execution that was stopped before its task was created. */
export const stoppedResult = (): ExecutionResult => ({
  outcome: 'CONTAINER_FAILED',
  reason: 'stopped',
  sessionId: null,
  responseText: '',
  durationMs: 0,
  totalCostUsd: 0,
  numTurns: 0,
  isError: true,
  usage: { inputTokens: 0, outputTokens: 0, cacheCreationInputTokens: 0, cacheReadInputTokens: 0 },
  exitCode: null,
  errorMessage: 'the execution was stopped before it began',
  taskId: null,
})
