import { describe, expect, test } from 'vitest'
import { recordedCase, replay } from '../testing/recorded.fixture.ts'
import { aRun } from '../testing/run.fixture.ts'
import { codex } from './codex.ts'

const SESSION = '11111111-2222-4333-8444-555555555555'
const RUN = aRun({ model: 'gpt-5.5', credentialEnv: 'OPENAI_API_KEY' })
const play = (name: string, run = RUN) => replay(codex.parser(run), recordedCase('codex', name))

describe('recorded runs', () => {
  test.each([
    ['plain answer', 'SUCCESS', 'completed'],
    ['tool call', 'SUCCESS', 'completed'],
    ['tool call of a newer model', 'SUCCESS', 'completed'],
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
    ['malformed stream', 'CONTAINER_FAILED', 'model_unreachable'],
    ['cut stream', 'CONTAINER_FAILED', 'model_unreachable'],
    ['connection refused', 'CONTAINER_FAILED', 'model_unreachable'],
    ['key missing', 'SESSION_CORRUPTED', 'auth'],
    ['killed in mid-run', 'CONTAINER_FAILED', 'crashed'],
    ['budget', 'CONTAINER_FAILED', 'budget'],
  ])('%s ends as %s because of %s', (name, outcome, reason) => {
    const { end } = play(name)
    expect([end.outcome, end.reason]).toEqual([outcome, reason])
  })
})

test('a tool call gives text, the use and its result, and one usage at the end', () => {
  const { events, end } = play('tool call')
  expect(events.map(({ type }) => type)).toEqual(['init', 'other', 'text', 'tool_use', 'tool_result', 'text', 'usage', 'result'])
  expect(events[0]).toMatchObject({ agent_session_id: SESSION, model: 'gpt-5.5' })
  expect(events[3]).toMatchObject({ name: 'shell', input: { command: expect.stringContaining('echo hi') } })
  expect(events[4]).toMatchObject({ content: 'hi\noops\n', is_error: true })
  expect(events[4]?.tool_use_id).toBe(events[3]?.tool_use_id)
  expect(end).toMatchObject({
    agentSessionId: SESSION,
    responseText: 'done',
    numTurns: 2,
    usage: { input_tokens: 200, output_tokens: 40 },
  })
  expect(end.totalCostUsd).toBeCloseTo((200 * 5 + 40 * 30) / 1_000_000)
})

test('a tool that has no line for its start is reported with its result', () => {
  const item = { id: 'item_0', type: 'file_change', changes: [{ path: 'a', kind: 'add' }], status: 'completed' }
  const events = codex.parser(RUN).line(JSON.stringify({ type: 'item.completed', item }), false)
  expect(events.map(({ type }) => type)).toEqual(['tool_use', 'tool_result'])
})

test('the result of an MCP tool is its text', () => {
  const item = {
    id: 'a',
    type: 'mcp_tool_call',
    server: 'local',
    tool: 'ping',
    arguments: {},
    result: { content: [{ type: 'text', text: 'pong' }] },
  }
  const events = codex.parser(RUN).line(JSON.stringify({ type: 'item.completed', item }), false)
  expect(events).toMatchObject([{ name: 'local.ping' }, { content: 'pong', is_error: false }])
})

test('the usage of a resumed conversation is what this run has added', () => {
  const usageBefore = play('plain answer').end.usage
  expect(play('resume', { ...RUN, usageBefore }).end.usage).toEqual(usageBefore)
})

test('cached input is counted apart, and an unknown model has no cost', () => {
  const parser = codex.parser(aRun({ model: 'gpt-unheard-of' }))
  parser.line('{"type":"turn.completed","usage":{"input_tokens":100,"cached_input_tokens":60,"output_tokens":5}}', false)
  expect(parser.soFar()).toMatchObject({ usage: { input_tokens: 40, cache_read_input_tokens: 60 }, totalCostUsd: null })
})

test('a run that reached its budget has cost its budget', () => {
  expect(play('budget', { ...RUN, maxCostUsd: 0.07 }).end.totalCostUsd).toBe(0.07)
})

describe('launch', () => {
  const configOf = (run = RUN) =>
    codex.launch(run).files.find(({ path }) => path === '/home/sandbox/.codex/config.toml')?.text ?? ''

  test('the prompt comes from stdin, also when a conversation goes on', () => {
    expect(codex.launch(RUN).argv.slice(1)).toEqual([
      'exec',
      '--json',
      '--skip-git-repo-check',
      '--dangerously-bypass-approvals-and-sandbox',
      '-',
    ])
    expect(codex.launch({ ...RUN, resume: SESSION }).argv.slice(1, 3)).toEqual(['exec', 'resume'])
    expect(codex.launch({ ...RUN, resume: SESSION }).argv.slice(-2)).toEqual([SESSION, '-'])
  })

  test('a project is untrusted unless its configuration is trusted', () => {
    expect(configOf()).toContain('"/workspace" = { "trust_level" = "untrusted" }')
    expect(configOf({ ...RUN, trustRepoConfig: true })).toContain('"/workspace" = { "trust_level" = "trusted" }')
  })

  test('the provider has no WebSockets and reads the key from its variable', () => {
    expect(configOf()).toContain('"base_url" = "https://api.openai.com/v1", "env_key" = "OPENAI_API_KEY"')
    expect(configOf()).toContain('"supports_websockets" = false')
    expect(configOf({ ...RUN, credentialEnv: 'CODEX_ACCESS_TOKEN' })).toContain(
      '"base_url" = "https://chatgpt.com/backend-api/codex"',
    )
    expect(configOf({ ...RUN, baseUrl: 'https://gateway.example/v1' })).toContain('"base_url" = "https://gateway.example/v1"')
  })

  test('web search is disabled unless it is allowed', () => {
    expect(configOf()).toContain('"web_search" = "disabled"')
    expect(configOf({ ...RUN, allowWebTools: true })).toContain('"web_search" = "live"')
  })

  test('a budget is in millionths of a dollar, with prices as weights', () => {
    expect(configOf({ ...RUN, maxCostUsd: 0.5 })).toMatch(
      /"limit_tokens" = 500000,.*"sampling_token_weight" = 30, "prefill_token_weight" = 5/,
    )
    expect(configOf({ ...RUN, maxCostUsd: 0.5, model: null })).not.toContain('rollout_budget')
  })

  test('MCP servers are tables, with tokens in their variables', () => {
    const mcp = {
      web: { url: 'https://mcp.example', bearerEnv: 'TOKEN' },
      local: { command: ['a', 'b"c'], env: { D: 'e' }, inherit: ['F'] },
    }
    expect(configOf({ ...RUN, mcp })).toContain('"web" = { "url" = "https://mcp.example", "bearer_token_env_var" = "TOKEN" }')
    expect(configOf({ ...RUN, mcp })).toContain(
      '"local" = { "command" = "a", "args" = ["b\\"c"], "env" = { "D" = "e" }, "env_vars" = ["F"] }',
    )
  })
})
