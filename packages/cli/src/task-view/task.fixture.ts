// For tests: a task, its events, and a terminal that keeps what is written.
import { Writable } from 'node:stream'
import type { TaskEvent, TaskInfo } from '@sandglass/sdk'

const AT = '2026-01-01T00:00:00.000Z'

export const taskInfo = (fields: Partial<TaskInfo> = {}): TaskInfo => ({
  id: 'task_0123456789abcdef',
  groupId: 'task_0123456789abcdef',
  attempt: 1,
  agent: 'claude',
  agentVersion: '1.2.3',
  context: 'work',
  sessionId: 'sess_0123456789abcdef',
  sessionName: 'box',
  status: 'done',
  outcome: 'SUCCESS',
  reason: 'completed',
  errorMessage: null,
  isRecoverable: false,
  prompt: 'fix the tests',
  model: null,
  agentSessionId: 'abc',
  resumedFrom: null,
  responseText: 'Done.',
  usage: { inputTokens: 100, outputTokens: 20, cacheCreationInputTokens: 0, cacheReadInputTokens: 0 },
  totalCostUsd: 0.0123,
  numTurns: 3,
  exitCode: 0,
  checkExitCode: null,
  tries: 1,
  events: 9,
  timeoutSec: 3600,
  maxTurns: null,
  maxCostUsd: null,
  hasPatch: false,
  branch: null,
  labels: {},
  createdAt: AT,
  startedAt: AT,
  deadlineAt: '2026-01-01T01:00:00.000Z',
  endedAt: '2026-01-01T00:02:05.000Z',
  durationMs: 125_000,
  ...fields,
})

let count = 0
export const taskEvent = (fields: Partial<TaskEvent>): TaskEvent => ({ id: ++count, at: AT, type: 'other', ...fields })

/** A stream that keeps what is written; with `columns` it is a terminal without colours. */
export function recorder(columns?: number) {
  const written: string[] = []
  const stream = new Writable({
    write(chunk, _encoding, done) {
      written.push(String(chunk))
      done()
    },
  })
  const terminal = { isTTY: columns !== undefined, columns, getColorDepth: () => 1, hasColors: () => false }
  return { stream: Object.assign(stream, terminal) as unknown as NodeJS.WriteStream, text: () => written.join('') }
}
