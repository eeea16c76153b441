import { expect, test } from 'vitest'
import { recorder, taskInfo } from './task.fixture.ts'
import { attemptTable, taskTable } from './task-table.ts'

const terminal = (columns: number) => recorder(columns).stream
const file = recorder().stream

test('the list of tasks fits the terminal, and the prompt is cut', () => {
  const prompt = 'fix the tests\nof the parser, and then \x1b[2Jlook at the rest of it'
  const tasks = [
    taskInfo({ prompt }),
    taskInfo({ outcome: null, status: 'queued', durationMs: null, startedAt: null, totalCostUsd: null }),
  ]
  const lines = taskTable(tasks, terminal(100)).trimEnd().split('\n')
  expect(lines[0]).toBe('TASK                   AGENT   STATUS   CONTEXT  COST     TIME   PROMPT')
  expect(lines[1]).toMatch(/^task_0123456789abcdef {2}claude {2}SUCCESS {2}work {5}\$0\.0123 {2}2m 5s\s+fix the tests of.*…$/)
  expect(Math.max(...lines.map(line => line.length))).toBeLessThanOrEqual(100)
  expect(taskTable(tasks, file)).toContain('fix the tests of the parser, and then look at the rest of it')
})

test('attempts are compared side by side, with their checks if there are any', () => {
  const lost = taskInfo({ id: 'task_aaaaaaaaaaaaaaaa', agent: 'codex', outcome: 'CONTAINER_FAILED', reason: 'auth', numTurns: 0 })
  expect(attemptTable([taskInfo({ checkExitCode: 0 }), lost], file).split('\n')).toEqual([
    'TASK                   AGENT   OUTCOME                  COST     TIME   TURNS  CHECK',
    'task_0123456789abcdef  claude  SUCCESS                  $0.0123  2m 5s  3      passed',
    'task_aaaaaaaaaaaaaaaa  codex   CONTAINER_FAILED (auth)  $0.0123  2m 5s  0      -',
    '',
  ])
  expect(attemptTable([taskInfo()], file)).not.toContain('CHECK')
})
