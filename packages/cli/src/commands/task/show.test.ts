import { expect, test } from 'vitest'
import { taskInfo } from '../../task-view/task.fixture.ts'
import { taskText } from './show.ts'

test('a task is shown with its facts, its prompt and its answer', () => {
  const text = taskText(taskInfo({ model: 'opus', checkExitCode: 1, hasPatch: true, branch: 'sandglass/x', prompt: 'one\ntwo' }))
  expect(text).toMatch(/^agent +claude 1\.2\.3 opus$/m)
  expect(text).toMatch(/^check +exit 1$/m)
  expect(text).toMatch(/^time +2m 5s of 1h$/m)
  expect(text).toMatch(/\n\n> one\n> two\n\nDone\.\n$/)
})

test('whatever the agent chose is safe to print', () => {
  const hostile = 'x\x1b]0;title\x07\x1b[2Jy\x9bz\u202e'
  const text = taskText(
    taskInfo({
      model: hostile,
      agentSessionId: hostile,
      errorMessage: `${hostile}\nnext`,
      responseText: hostile,
      context: hostile,
      sessionName: hostile,
      prompt: hostile,
    }),
  )
  // biome-ignore lint/suspicious/noControlCharactersInRegex: control characters are what it looks for
  expect(text).not.toMatch(/[\x00-\x09\x0b-\x1f\x7f-\x9f\u202e]/)
  expect(text).not.toMatch(/^next/m)
})
