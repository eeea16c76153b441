import { describe, expect, test } from 'vitest'
import { recordedCase, replay } from '../testing/recorded.fixture.ts'
import { aRun } from '../testing/run.fixture.ts'
import { opencode } from './opencode.ts'
import { REFUSED } from './opencode-guard.ts'

const SESSION = 'ses_recorded0000000000000000'
const RUN = aRun({ credentialEnv: 'ANTHROPIC_API_KEY' })
const play = (name: string) => replay(opencode.parser(RUN), recordedCase('opencode', name))

describe('recorded runs', () => {
  test.each([
    ['plain answer', 'SUCCESS', 'completed'],
    ['tool call', 'SUCCESS', 'completed'],
    ['several turns', 'SUCCESS', 'completed'],
    ['resume', 'SUCCESS', 'completed'],
    ['resume of an unknown id', 'SESSION_CORRUPTED', 'bad_request'],
    ['status 400', 'SESSION_CORRUPTED', 'bad_request'],
    ['status 401', 'SESSION_CORRUPTED', 'auth'],
    ['status 403', 'SESSION_CORRUPTED', 'auth'],
    ['status 404', 'SESSION_CORRUPTED', 'bad_request'],
    ['status 429', 'SESSION_CORRUPTED', 'rate_limited'],
    ['status 503', 'CONTAINER_FAILED', 'overloaded'],
    ['status 529', 'CONTAINER_FAILED', 'overloaded'],
    ['prompt too long', 'PROMPT_TOO_LONG', 'prompt_too_long'],
    // OpenCode reports it as a reply with status 500.
    ['malformed stream', 'CONTAINER_FAILED', 'overloaded'],
    ['cut stream', 'CONTAINER_FAILED', 'model_unreachable'],
    ['connection refused', 'CONTAINER_FAILED', 'model_unreachable'],
    ['key missing', 'SESSION_CORRUPTED', 'auth'],
    ['killed in mid-run', 'CONTAINER_FAILED', 'crashed'],
  ])('%s ends as %s because of %s', (name, outcome, reason) => {
    const { end } = play(name)
    expect([end.outcome, end.reason]).toEqual([outcome, reason])
  })
})

test('a tool call gives text, the use with its result, and the usage of each step', () => {
  const { events, end } = play('tool call')
  expect(events.map(({ type }) => type)).toEqual([
    'init',
    'text',
    'tool_use',
    'tool_result',
    'usage',
    'other',
    'text',
    'usage',
    'result',
  ])
  expect(events[0]).toMatchObject({ agent_session_id: SESSION })
  expect(events[2]).toMatchObject({
    name: 'bash',
    tool_use_id: 'call_1_0',
    input: { command: expect.stringContaining('echo hi') },
  })
  expect(events[3]).toMatchObject({ tool_use_id: 'call_1_0', is_error: true, content: expect.stringContaining('hi') })
  expect(end).toMatchObject({
    agentSessionId: SESSION,
    responseText: 'done',
    numTurns: 2,
    usage: { input_tokens: 200, output_tokens: 40 },
  })
  expect(end.totalCostUsd).toBeCloseTo(0.0012)
})

test('the cost and the turns so far are known after each step', () => {
  const parser = opencode.parser(RUN)
  const step = { type: 'step_finish', part: { reason: 'tool-calls', tokens: { input: 1, output: 2 }, cost: 0.5 } }
  parser.line(JSON.stringify(step), false)
  parser.line(JSON.stringify(step), false)
  expect(parser.soFar()).toMatchObject({ totalCostUsd: 1, numTurns: 2, usage: { input_tokens: 2, output_tokens: 4 } })
})

test('a step of a model that OpenCode has no price for costs what the table says, or is unknown', () => {
  const line = JSON.stringify({ type: 'step_finish', part: { reason: 'stop', tokens: { input: 1_000_000 }, cost: 0 } })
  const costWith = (model: string) => {
    const parser = opencode.parser({ ...RUN, model })
    parser.line(line, false)
    return parser.soFar().totalCostUsd
  }
  expect([costWith('claude-sonnet-5'), costWith('a-model-of-a-gateway')]).toEqual([2, null])
})

test('a repository with plugins is a start that failed', () => {
  const stderr = '/workspace/.opencode/plugin has plugins for OpenCode'
  const end = opencode.parser(RUN).conclude({ exitCode: REFUSED, stderr, timedOut: false, wasStopped: false, limitHit: null })
  expect(end).toMatchObject({
    outcome: 'CONTAINER_FAILED',
    reason: 'start_failed',
    errorMessage: expect.stringContaining(stderr),
  })
})

describe('launch', () => {
  const configOf = (run = RUN) => JSON.parse(opencode.launch(run).env.OPENCODE_CONFIG_CONTENT ?? '')

  test('the configuration of a repository is ignored unless it is trusted', () => {
    expect(opencode.launch(RUN).env).toMatchObject({ OPENCODE_DISABLE_PROJECT_CONFIG: '1' })
    expect(opencode.launch(RUN).argv[0]).toBe('/bin/sh')
    const trusted = opencode.launch({ ...RUN, trustRepoConfig: true })
    expect(trusted.env).not.toHaveProperty('OPENCODE_DISABLE_PROJECT_CONFIG')
    expect(trusted.argv[0]).toBe(RUN.program)
  })

  test('every class of permissions is allowed, but for web tools', () => {
    expect(configOf().permission).toMatchObject({ '*': 'allow', webfetch: 'deny', websearch: 'deny' })
    expect(configOf({ ...RUN, allowWebTools: true }).permission).not.toHaveProperty('webfetch')
  })

  test('the provider follows the key, and a model gets its name', () => {
    expect(configOf().enabled_providers).toEqual(['anthropic'])
    const run = { ...RUN, credentialEnv: 'OPENAI_API_KEY', model: 'gpt-5.5', baseUrl: 'https://gateway.example/v1' }
    expect(configOf(run).provider).toEqual({
      openai: { options: { baseURL: 'https://gateway.example/v1' }, models: { 'gpt-5.5': {} } },
    })
    expect(opencode.launch(run).argv.slice(-2)).toEqual(['--model', 'openai/gpt-5.5'])
  })

  test('MCP servers take tokens from their variables', () => {
    const mcp = { web: { url: 'https://mcp.example', bearerEnv: 'TOKEN' }, local: { command: ['a', 'b'], env: { C: 'd' } } }
    expect(configOf({ ...RUN, mcp }).mcp).toMatchObject({
      web: { type: 'remote', headers: { Authorization: 'Bearer {env:TOKEN}' } },
      local: { type: 'local', command: ['a', 'b'], environment: { C: 'd' } },
    })
  })

  test('a conversation goes on under its id', () => {
    expect(opencode.launch({ ...RUN, resume: SESSION }).argv.slice(-2)).toEqual(['--session', SESSION])
  })
})
