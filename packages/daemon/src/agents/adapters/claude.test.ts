import { describe, expect, test } from 'vitest'
import { recordedCase, replay } from '../testing/recorded.fixture.ts'
import { aRun } from '../testing/run.fixture.ts'
import { claude } from './claude.ts'

const SESSION = '11111111-2222-4333-8444-555555555555'
const play = (name: string, end = {}) =>
  replay(claude.parser(aRun({ credentialEnv: 'ANTHROPIC_API_KEY' })), recordedCase('claude', name), end)
const line = (value: object) => JSON.stringify(value)

describe('recorded runs', () => {
  test.each([
    ['plain answer', 'SUCCESS', 'completed'],
    ['tool call', 'SUCCESS', 'completed'],
    ['several turns', 'SUCCESS', 'completed'],
    ['resume', 'SUCCESS', 'completed'],
    ['sub-agent', 'SUCCESS', 'completed'],
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
    ['max turns', 'CONTAINER_FAILED', 'max_turns'],
    ['budget', 'CONTAINER_FAILED', 'budget'],
  ])('%s ends as %s because of %s', (name, outcome, reason) => {
    const { end } = play(name)
    expect([end.outcome, end.reason]).toEqual([outcome, reason])
    if (outcome === 'SUCCESS') expect(end.errorMessage).toBeNull()
    else expect(end.errorMessage).toMatch(/^[A-Z].*/)
  })
})

test('a tool call gives text, the use and its result, and the usage of each message once', () => {
  const { events, end } = play('tool call')
  expect(events.map(({ type }) => type)).toEqual(['init', 'text', 'usage', 'tool_use', 'tool_result', 'text', 'usage', 'result'])
  expect(events[0]).toMatchObject({ agent_session_id: SESSION, model: 'claude-opus-5-5' })
  expect(events[3]).toMatchObject({
    name: 'Bash',
    tool_use_id: 'call_1_0',
    input: { command: expect.stringContaining('echo hi') },
  })
  expect(events[4]).toMatchObject({ tool_use_id: 'call_1_0', content: 'Exit code 3\nhi\noops', is_error: true })
  expect(end).toMatchObject({
    agentSessionId: SESSION,
    responseText: 'done',
    numTurns: 2,
    usage: { input_tokens: 200, output_tokens: 40 },
  })
})

test('what a sub-agent says carries its parent and is not the response', () => {
  const { events, end } = play('sub-agent')
  expect(events.find(({ text }) => text === 'sub text')).toMatchObject({ type: 'text', parent_tool_use_id: 'call_1_0' })
  expect(end.responseText).toBe('main done')
})

test('the cost of a resumed conversation is that of this run', () => {
  expect(play('resume').end.totalCostUsd).toBeCloseTo(play('plain answer').end.totalCostUsd ?? 0)
})

test('the session id comes from init when the run ends without a result', () => {
  expect(play('killed in mid-run').end).toMatchObject({ agentSessionId: SESSION, numTurns: 1 })
})

test('a refused key names the secret to set', () => {
  expect(play('status 401').end.errorMessage).toContain('sandglass secret set agent.claude.')
  const subscribed = claude.parser(aRun({ credentialEnv: 'CLAUDE_CODE_OAUTH_TOKEN' }))
  expect(replay(subscribed, recordedCase('claude', 'status 401')).end.errorMessage).toContain('agent.claude.subscription')
})

test('of several results the turns and durations add up, and the last one counts', () => {
  const parser = claude.parser(aRun())
  const result = { type: 'result', is_error: false, num_turns: 2, duration_ms: 10, session_id: 'a', usage: { input_tokens: 7 } }
  parser.line(line({ ...result, is_error: true, result: 'API Error: 500' }), false)
  parser.line(line({ ...result, result: 'fine', total_cost_usd: 0.5, usage: { input_tokens: 9 } }), false)
  const end = parser.conclude({ exitCode: 0, timedOut: false, wasStopped: false, stderr: '', limitHit: null })
  expect(end).toMatchObject({
    outcome: 'SUCCESS',
    numTurns: 4,
    durationMs: 20,
    totalCostUsd: 0.5,
    usage: { input_tokens: 9 },
    responseText: 'fine',
  })
})

describe('launch', () => {
  const flag = (argv: string[], name: string) => argv[argv.indexOf(name) + 1]

  test('the configuration of a repository is ignored unless it is trusted', () => {
    const { argv, files } = claude.launch(aRun())
    expect(flag(argv, '--setting-sources')).toBe('user')
    expect(argv).toContain('--strict-mcp-config')
    expect(files.find(({ path }) => path.endsWith('/CLAUDE.md'))?.text).toBe('@/workspace/CLAUDE.md\n')
    expect(claude.launch(aRun({ trustRepoConfig: true })).argv).not.toContain('--setting-sources')
  })

  test('web tools are off unless they are allowed', () => {
    expect(flag(claude.launch(aRun()).argv, '--disallowed-tools')).toBe('WebFetch,WebSearch')
    expect(claude.launch(aRun({ allowWebTools: true })).argv).not.toContain('--disallowed-tools')
  })

  test('model, conversation and limits become flags', () => {
    const { argv } = claude.launch(aRun({ model: 'opus', resume: SESSION, maxTurns: 3, maxCostUsd: 0.25 }))
    expect(argv.slice(-8)).toEqual(['--model', 'opus', '--resume', SESSION, '--max-turns', '3', '--max-budget-usd', '0.25'])
  })

  test('a token of an MCP server stays in its variable', () => {
    const { files } = claude.launch(
      aRun({ mcp: { web: { url: 'https://mcp.example', bearerEnv: 'TOKEN' }, local: { command: ['a', 'b'], env: { C: 'd' } } } }),
    )
    const { mcpServers } = JSON.parse(files.find(({ path }) => path.endsWith('mcp.json'))?.text ?? '')
    expect(mcpServers.web).toMatchObject({
      type: 'http',
      url: 'https://mcp.example',
      headers: { Authorization: `Bearer \${TOKEN}` },
    })
    expect(mcpServers.local).toMatchObject({ command: 'a', args: ['b'], env: { C: 'd' } })
  })

  test('the screen of the agent starts without a prompt, on a folder that is trusted', () => {
    const { argv, files } = claude.launch(aRun({ isInteractive: true }))
    expect(argv).not.toContain('-p')
    const { projects } = JSON.parse(files.find(({ path }) => path.endsWith('/.claude.json'))?.text ?? '')
    expect(projects['/workspace']).toMatchObject({ hasTrustDialogAccepted: true })
  })
})
