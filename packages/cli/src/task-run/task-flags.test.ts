import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { TaskSpec } from '@sandglass/contract'
import { toSnake } from '@sandglass/sdk'
import { expect, test } from 'vitest'
import { parseInput } from '../parser/parse.ts'
import { mcpServers } from './mcp-file.ts'
import { TASK_FLAGS, taskFromFlags } from './task-flags.ts'
import { localFile } from './uploads.ts'

const taskOf = (...argv: string[]) => taskFromFlags(parseInput(argv, TASK_FLAGS).flags, 'do it')

test('flags become a task that the contract accepts', () => {
  const folder = mkdtempSync(join(tmpdir(), 'sg-flags-'))
  const mcp = join(folder, 'mcp.json')
  writeFileSync(
    mcp,
    '{ "mcpServers": { "a": { "type": "stdio", "command": "npx", "args": ["-y", "x"], "env": { "MY_KEY": "1" } } } }',
  )
  const spec = taskOf(
    ...['-a', 'claude', '-t', '90m', '--context', 'job 1', '--model', 'opus', '--session', 'box', '--image', 'debian:12'],
    ...[
      '--policy',
      'npm',
      '--secret',
      'gh',
      '-e',
      'A_b=c',
      '--max-turns',
      '5',
      '--max-cost',
      '$1.50',
      '--context-max-cost',
      '10',
    ],
    ...[
      '--attempts',
      '2',
      '--check',
      'npm test',
      '--retries',
      '1',
      '--retry-on',
      'overloaded',
      '--on-busy',
      'refuse',
      '--no-resume',
    ],
    ...['--recovery-prompt', 'start over', '--trust-repo-config', '--allow-web-tools', '--keep-session'],
    ...['--base-url', 'https://gateway.example.com', '--cpus', '2', '--memory', '2g', '--label', 'x=y', '--mcp', mcp],
  )
  rmSync(folder, { recursive: true })
  expect(TaskSpec.parse(toSnake(spec))).toEqual({
    prompt: 'do it',
    agent: 'claude',
    timeout_sec: 5400,
    context: 'job 1',
    model: 'opus',
    session: 'box',
    image: 'debian:12',
    policies: ['npm'],
    secrets: ['gh'],
    env: { A_b: 'c' },
    max_turns: 5,
    max_cost_usd: 1.5,
    context_max_cost_usd: 10,
    attempts: 2,
    check: 'npm test',
    retries: 1,
    retry_on: ['overloaded'],
    on_busy: 'refuse',
    resume: false,
    recovery_prompt: 'start over',
    trust_repo_config: true,
    allow_web_tools: true,
    keep_session: true,
    base_url: 'https://gateway.example.com',
    cpu_cores: 2,
    memory_mb: 2048,
    labels: { x: 'y' },
    mcp: { a: { command: ['npx', '-y', 'x'], env: { MY_KEY: '1' } } },
  })
})

test('without flags the daemon decides', () => {
  expect(taskOf()).toEqual({ prompt: 'do it' })
})

test('several agents are given by commas or by repetition, each once', () => {
  expect(taskOf('-a', 'claude,codex', '-a', 'claude')).toEqual({ prompt: 'do it', agents: ['claude', 'codex'] })
  expect(() => taskOf('-a', 'claude,')).toThrow('the agent is missing')
  expect(() => taskOf('-a', 'gpt')).toThrow('gpt is not an agent: use claude, codex or opencode')
})

test.each([
  [['--max-turns', 'many'], '--max-turns many is not a number'],
  [['-t', 'soon'], '--timeout soon is not a duration'],
  [['--on-busy', 'queue'], '--on-busy must be wait or refuse'],
  [['--recovery-prompt', ' '], '--recovery-prompt is empty'],
])('%j is refused', (argv, issue) => {
  expect(() => taskOf(...argv)).toThrow(issue)
})

test('a local file and its path are divided at the last colon', () => {
  expect(localFile('a:b:/workspace/c')).toEqual({ local: 'a:b', path: '/workspace/c' })
  for (const wrong of ['a', ':b', 'a:']) expect(() => localFile(wrong)).toThrow('LOCAL:PATH')
})

test('servers with headers, and files that are no JSON, are refused without quoting them', () => {
  expect(() => mcpServers('{ "a": { "url": "https://x.example", "headers": { "authorization": "sk-1" } } }', 'f')).toThrow(
    'has headers',
  )
  expect(() => mcpServers('sk-1', 'f')).toThrow(/^--mcp f is not JSON$/)
  expect(mcpServers('{ "a": { "url": "https://x.example", "secret": "s", "env_name": "K" } }', 'f')).toEqual({
    a: { url: 'https://x.example', secret: 's', envName: 'K' },
  })
})
