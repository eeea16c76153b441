import type { TaskEvent, TaskInfo } from '@sandglass/sdk'
import { expect, test } from 'vitest'
import { LiveView } from './live-view.ts'
import { recorder, taskEvent, taskInfo } from './task.fixture.ts'

/** Erases the current line. */
const ERASE = '\r\x1b[K'

const EVENTS: Partial<TaskEvent>[] = [
  { type: 'status', status: 'preparing' },
  { type: 'status', status: 'running' },
  { type: 'init', agentSessionId: 'abc', model: 'm' },
  { type: 'text', text: 'I will look at the tests first.\nThen at the code.' },
  { type: 'text', text: 'What could be wrong?', isThinking: true },
  { type: 'tool_use', name: 'Bash', toolUseId: '1', input: { command: `npm test -- --reporter=verbose ${'x'.repeat(80)}` } },
  { type: 'tool_result', toolUseId: '1', content: 'Exit code 1\nFAIL a.test.ts', isError: true },
  { type: 'tool_use', name: 'Grep', input: { pattern: 'sum', path: '/workspace/src' } },
  { type: 'tool_result', content: 'a lot of text' },
  { type: 'tool_use', name: 'Read', parentToolUseId: '9', input: { file_path: '/workspace/a.ts' } },
  { type: 'usage', usage: { inputTokens: 10, outputTokens: 5, cacheCreationInputTokens: 0, cacheReadInputTokens: 0 } },
  { type: 'text', text: 'The test passes.' },
  { type: 'result', text: 'The test passes.', totalCostUsd: 0.5, numTurns: 2 },
  { type: 'status', status: 'done' },
]

function shown(events: readonly Partial<TaskEvent>[], options: { columns?: number; json?: boolean; quiet?: boolean } = {}) {
  const [stdout, stderr] = [recorder(options.columns), recorder(options.columns)]
  const running: TaskInfo = taskInfo({ status: 'queued', startedAt: null, deadlineAt: null, numTurns: 0, totalCostUsd: null })
  using view = new LiveView({
    json: options.json ?? false,
    quiet: options.quiet ?? false,
    streams: { stdout: stdout.stream, stderr: stderr.stream },
    now: () => Date.parse('2026-01-01T00:02:10.000Z'),
  })
  view.add(running)
  for (const event of events) view.show(running, taskEvent(event), false)
  view.end(running.id)
  return { stdout: stdout.text(), stderr: stderr.text() }
}

test('what the agent says is on stdout, and what it does is on stderr, one line for each tool', () => {
  const { stdout, stderr } = shown(EVENTS)
  expect(stdout).toBe('I will look at the tests first.\nThen at the code.\nThe test passes.\n')
  expect(stderr.split('\n')).toEqual([
    '(What could be wrong?)',
    `> Bash npm test -- --reporter=verbose ${'x'.repeat(80)}`,
    '  failed: Exit code 1 FAIL a.test.ts',
    '> Grep sum in /workspace/src',
    '  > Read /workspace/a.ts',
    '',
  ])
})

test('on a terminal, lines are cut to its width, and the last line says how far the task is', () => {
  const { stderr } = shown(EVENTS, { columns: 80 })
  const lines = stderr.replaceAll(ERASE, '\n').split('\n')
  expect(lines).toContain(`> Bash npm test -- --reporter=verbose ${'x'.repeat(41)}…`)
  expect(lines).toContain('claude  preparing')
  expect(lines).toContain('claude  2m 10s  57m 50s left')
  expect(lines).toContain('claude  2m 10s  57m 50s left  2 turns  $0.50')
  expect(Math.max(...lines.map(line => line.length))).toBe(80)
  expect(stderr.endsWith(ERASE)).toBe(true)
})

test('with --quiet, only what the agent says is printed', () => {
  expect(shown(EVENTS, { quiet: true, columns: 80 })).toEqual({
    stdout: 'I will look at the tests first.\nThen at the code.\nThe test passes.\n',
    stderr: '',
  })
})

test('with --json, each event is one line in the shape of the API', () => {
  const { stdout, stderr } = shown(
    [{ type: 'tool_use', name: 'Edit', toolUseId: 'x', input: { file_path: 'a', newText: 'b' } }],
    {
      json: true,
    },
  )
  expect(JSON.parse(stdout)).toMatchObject({ type: 'tool_use', tool_use_id: 'x', input: { file_path: 'a', newText: 'b' } })
  expect(stdout.endsWith('}\n')).toBe(true)
  expect(stderr).toBe('')
})

test.each([
  ['text', { type: 'text' }],
  ['thinking', { type: 'text', isThinking: true }],
  ['the name of a tool', { type: 'tool_use', input: {} }, 'name'],
  ['an error', { type: 'error' }],
  ['a status', { type: 'status', status: 'retrying' }],
] as const)('escape sequences and control characters in %s do not reach the terminal', (_what, event, field: string = 'text') => {
  const hostile = 'a\x1b]0;title\x07\x1b[2Jb\x1b]52;c;aGk=\x1b\\c\x9b31md\u202ee\rf\x00g\x1b'
  const { stdout, stderr } = shown([{ ...event, [field]: hostile }])
  // biome-ignore lint/suspicious/noControlCharactersInRegex: control characters are what it looks for
  expect(stdout + stderr).not.toMatch(/[\x00-\x09\x0b-\x1f\x7f-\x9f\u202e]/)
  expect(stdout + stderr).toMatch(/a.*b.*c.*d/)
})

test('input of a tool and what a failed tool gave back are one safe line each', () => {
  const { stderr } = shown([
    { type: 'tool_use', name: 'Bash', input: { command: 'echo\n\x1b[31mx\rrm' } },
    { type: 'tool_use', name: 'exec_command', input: { cmd: ['bash', '-lc', 'ls -la'] } },
    { type: 'tool_use', name: 'TodoWrite', input: { todos: ['\x1b[H'] } },
    { type: 'tool_result', isError: true, content: `\x1b[2J${'y\n'.repeat(100_000)}` },
  ])
  const lines = stderr.trimEnd().split('\n')
  expect(lines.slice(0, 3)).toEqual(['> Bash echo x rm', '> exec_command ls -la', '> TodoWrite {"todos":["\\u001b[H"]}'])
  expect(lines).toHaveLength(4)
  expect(lines[3]?.length).toBeLessThan(5000)
})

test('several tasks are told apart by a heading', () => {
  const [stdout, stderr] = [recorder(), recorder()]
  const [one, two] = [taskInfo(), taskInfo({ id: 'task_aaaaaaaaaaaaaaaa', agent: 'codex' })]
  using view = new LiveView({ json: false, quiet: false, streams: { stdout: stdout.stream, stderr: stderr.stream } })
  for (const task of [one, one, two, one]) view.show(task, taskEvent({ type: 'tool_use', name: 'Read' }), true)
  expect(stderr.text().split('\n')).toEqual([
    `claude ${one.id}`,
    '> Read',
    '> Read',
    `codex ${two.id}`,
    '> Read',
    `claude ${one.id}`,
    '> Read',
    '',
  ])
})
