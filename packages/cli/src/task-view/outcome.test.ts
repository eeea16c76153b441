import { OUTCOMES, TASK_REASONS } from '@sandglass/contract/tables'
import { expect, test } from 'vitest'
import { exitCodeOf, failureText } from './outcome.ts'
import { taskInfo } from './task.fixture.ts'

const failed = { outcome: 'CONTAINER_FAILED', reason: 'crashed' } as const
const late = { outcome: 'TIMEOUT', reason: 'timeout' } as const

test.each([
  ['a success', [{}], 0],
  ['a timeout', [late], 124],
  ['a failure', [failed], 1],
  ['a check that passed', [{ checkExitCode: 0 }], 0],
  ['a check that failed', [{ checkExitCode: 2 }], 1],
  ['one success among failures', [failed, {}, late], 0],
  ['one success whose check failed, and a timeout', [{ checkExitCode: 1 }, late], 1],
  ['timeouts alone', [late, late], 124],
])('the exit code after %s is right', (_what, tasks, code) => {
  expect(exitCodeOf(tasks.map(fields => taskInfo(fields)))).toBe(code)
})

test('a failure says what happened and the next step', () => {
  expect(failureText(taskInfo({ ...late, errorMessage: 'the agent was ended after 1h' }))).toBe(
    "sandglass: TIMEOUT: the agent was ended after 1h\n  next: sandglass run -a claude --context work -t 2h -p 'go on'\n",
  )
  expect(failureText(taskInfo({ ...failed, reason: 'auth', errorMessage: '401' }))).toContain('sandglass secret set agent.claude')
  expect(failureText(taskInfo({ checkExitCode: 3 }))).toContain('the check failed: exit code 3')
})

test('the next step names the limit that was reached, and another model if one was refused', () => {
  const budget = { outcome: 'CONTAINER_FAILED', reason: 'budget' } as const
  expect(failureText(taskInfo({ ...budget, maxCostUsd: 2 }))).toContain(' --max-cost 4 ')
  expect(failureText(taskInfo({ ...budget, maxCostUsd: null }))).toContain(' --context-max-cost USD ')
  const refused = { outcome: 'SESSION_CORRUPTED', reason: 'bad_request', isRecoverable: true } as const
  expect(failureText(taskInfo({ ...refused, model: 'nonsense' }))).toContain(' --no-resume --model MODEL ')
  expect(failureText(taskInfo({ ...refused, model: null }))).toContain(' --no-resume -p ')
})

test('every outcome and reason has two safe lines, whatever the sandbox and the caller named', () => {
  for (const outcome of OUTCOMES)
    for (const reason of TASK_REASONS) {
      const text = failureText(
        taskInfo({
          outcome,
          reason,
          errorMessage: 'a\x1b[2J\nb',
          context: "it's $(id)\n",
          isRecoverable: outcome === 'PROMPT_TOO_LONG',
        }),
      )
      expect(text.split('\n')).toHaveLength(3)
      expect(text).not.toContain('\x1b')
      expect(text.includes('$(id)')).toBe(text.includes("'it'\\''s $(id)"))
    }
})
