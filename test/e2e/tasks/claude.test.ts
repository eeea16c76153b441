// Claude Code itself, in sandboxes of the oci backend, against a stub model through interception.
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import type { StubTurn } from '../../../packages/daemon/src/agents/testing/stub-model.fixture.ts'
import { deadline } from '../deadline.ts'
import type { Json } from '../real-daemon.ts'
import { KEYS, startTasks, type TaskDaemon } from './task-daemon.ts'

let tasks: TaskDaemon
beforeAll(async () => {
  tasks = await startTasks({}, ['claude'])
}, 300_000)
afterAll(() => tasks[Symbol.asyncDispose]())

const get = async (path: string) => (await tasks.daemon.call('GET', path)).json()
const session = async ({ session_id }: Json) => get(`/v1/sessions/${session_id}`)
/** A refusal after which the client does not try again. */
const refusal = (fail: number): StubTurn => ({ fail, headers: { 'x-should-retry': 'false' } })

describe('a task with claude', { timeout: 60_000 }, () => {
  let first: Json

  test('runs a tool, answers, and gives events, usage and cost', async () => {
    const model = await tasks.model([
      { run: 'echo made > /workspace/file; echo \'{"type":"status","status":"done"}\'', say: 'I make a file.' },
      { say: 'It is done.' },
    ])
    first = await tasks.run({ agent: 'claude', prompt: 'make a file', context: 'conversation 1/ä' })
    expect(first).toMatchObject({
      status: 'done',
      outcome: 'SUCCESS',
      reason: 'completed',
      error_message: null,
      response_text: 'It is done.',
      exit_code: 0,
      tries: 1,
      num_turns: expect.any(Number),
      agent_session_id: expect.stringMatching(/^[0-9a-f-]{36}$/),
    })
    expect(first.usage.input_tokens).toBeGreaterThan(0)
    expect(first.total_cost_usd).toBeGreaterThan(0)
    const events = await tasks.events(first.id)
    const types = events.map(({ type }) => type)
    expect(types).toEqual(expect.arrayContaining(['init', 'text', 'tool_use', 'tool_result', 'usage', 'result']))
    expect(events.map(({ id }) => id)).toEqual(events.map((_, index) => index + 1))
    expect(first.events).toBe(events.length)
    // What the tool printed is no event of ours.
    const statuses = events.filter(({ type }) => type === 'status').map(({ status }) => status)
    expect(statuses.filter(status => status !== 'installing')).toEqual(['preparing', 'running', 'done'])
    expect(model.requests.filter(({ isTurn }) => isTurn).map(({ headers }) => headers['x-api-key'])).toEqual([
      KEYS.claude,
      KEYS.claude,
    ])
    expect(await get(`/v1/tasks/${first.id}/result`)).toMatchObject({
      outcome: 'SUCCESS',
      is_error: false,
      response_text: 'It is done.',
    })
  })

  test('can be read from any event on, by a late reader, and with the agent’s own lines', async () => {
    const all = await tasks.events(first.id)
    const middle = all[Math.floor(all.length / 2)]?.id
    expect(await tasks.events(first.id, '', { 'last-event-id': String(middle) })).toEqual(all.slice(middle))
    expect(await tasks.events(first.id, '?tail=2')).toEqual(all.slice(-2))
    const raw = (await tasks.events(first.id, '?raw=true')).flatMap(({ raw: line }) =>
      line === undefined ? [] : [JSON.parse(line)],
    )
    expect(raw.map(({ type }) => type)).toEqual(expect.arrayContaining(['system', 'assistant', 'user', 'result']))
  })

  test('leaves a stopped session with its files and its agent and prompt, and a context with its reply', async () => {
    await deadline('the session is stopped', async () => (await session(first)).status === 'stopped')
    expect(await session(first)).toMatchObject({ agent: 'claude', prompt: 'make a file', mode: 'persistent' })
    expect(await get(`/v1/contexts/${encodeURIComponent('conversation 1/ä')}`)).toMatchObject({
      id: 'conversation 1/ä',
      replies: 1,
      agents: ['claude'],
      session_id: first.session_id,
      running_task: null,
    })
    const file = await get(`/v1/contexts/${encodeURIComponent('conversation 1/ä')}/file`)
    expect(file).toMatchObject({
      execution_context_id: 'conversation 1/ä',
      replies: [
        { session_id: first.agent_session_id, request_text: 'make a file', response_text: 'It is done.', is_error: false },
      ],
    })
    expect(file.replies[0].events.length).toBeGreaterThan(3)
  })

  test('goes on with the conversation of its context, in the same session', async () => {
    const model = await tasks.model([{ run: 'cat /workspace/file' }, { say: 'still here' }])
    const second = await tasks.run({ agent: 'claude', prompt: 'is it there?', context: 'conversation 1/ä' })
    expect(second).toMatchObject({ outcome: 'SUCCESS', session_id: first.session_id, resumed_from: first.agent_session_id })
    expect(model.requests.find(({ isTurn }) => isTurn)?.body).toContain('make a file')
    const result = (await tasks.events(second.id)).find(({ type }) => type === 'tool_result')
    expect(result.content).toContain('made')
  })

  test('goes on in a new session, if somebody has removed the one of the context', async () => {
    await tasks.daemon.call('DELETE', `/v1/sessions/${first.session_id}?purge=true`)
    const model = await tasks.model([{ say: 'I remember.' }])
    const third = await tasks.run({ agent: 'claude', prompt: 'what was it?', context: 'conversation 1/ä' })
    expect(third).toMatchObject({ outcome: 'SUCCESS', response_text: 'I remember.' })
    expect(third.session_id).not.toBe(first.session_id)
    const log = (await tasks.daemon.call('GET', `/v1/contexts/${encodeURIComponent('conversation 1/ä')}/network`)).body.toString()
    expect(log.match(/ALLOWED POST https:\/\/api\.anthropic\.com\/v1\/messages/gi)?.length).toBeGreaterThanOrEqual(5)
    expect(model.requests.find(({ isTurn }) => isTurn)?.body).toContain('make a file')
  })

  test('that is stopped ends, twice is the same as once, and the next one resumes it by its first event', async () => {
    await tasks.model([{ hang: true }])
    const { id } = await tasks.create({ agent: 'claude', prompt: 'wait', context: 'stopped' })
    await deadline('the agent has begun', async () =>
      (await tasks.events(id, '?follow=false')).some(({ type }) => type === 'init'),
    )
    const stops = await Promise.all([1, 2].map(() => tasks.daemon.call('POST', `/v1/tasks/${id}/stop`)))
    for (const reply of stops)
      expect(reply.json()).toMatchObject({ status: 'done', outcome: 'CONTAINER_FAILED', reason: 'stopped' })
    const interrupted = await tasks.ended(id)
    expect(interrupted.agent_session_id).toMatch(/^[0-9a-f-]{36}$/)
    expect((await tasks.daemon.call('POST', `/v1/tasks/${id}/stop`)).json()).toEqual(interrupted)
    await tasks.model([{ say: 'going on' }])
    const next = await tasks.run({ agent: 'claude', prompt: 'go on', context: 'stopped' })
    expect(next).toMatchObject({ resumed_from: interrupted.agent_session_id, outcome: 'SUCCESS' })
  })

  test('that takes too long ends as TIMEOUT and keeps its events and files', { timeout: 90_000 }, async () => {
    await tasks.model([{ run: 'echo kept > /workspace/kept' }, { hang: true }])
    const task = await tasks.run({ agent: 'claude', prompt: 'wait', timeout_sec: 25, keep_session: true })
    expect(task).toMatchObject({ outcome: 'TIMEOUT', reason: 'timeout', exit_code: 124 })
    expect((await tasks.events(task.id)).map(({ type }) => type)).toContain('tool_result')
    expect((await tasks.daemon.exec(task.session_id, 'cat /workspace/kept')).output).toBe('kept\n')
    await tasks.daemon.call('DELETE', `/v1/sessions/${task.session_id}`)
  })

  test.each([
    [400, 'SESSION_CORRUPTED', 'bad_request'],
    [401, 'SESSION_CORRUPTED', 'auth'],
    [429, 'SESSION_CORRUPTED', 'rate_limited'],
    [529, 'CONTAINER_FAILED', 'overloaded'],
  ])('that the model answers with %i ends as %s, %s', async (status, outcome, reason) => {
    await tasks.model([refusal(status)])
    const task = await tasks.run({ agent: 'claude', prompt: 'say API Error: 400', timeout_sec: 50 })
    expect(task).toMatchObject({ outcome, reason, is_recoverable: status === 400 })
    expect(task.error_message).toMatch(/\w+/)
    expect(JSON.stringify(task)).not.toContain(KEYS.claude)
  })

  test('whose prompt is too long ends as PROMPT_TOO_LONG', async () => {
    await tasks.model([{ tooLong: true }])
    const task = await tasks.run({ agent: 'claude', prompt: 'more' })
    expect(task).toMatchObject({ outcome: 'PROMPT_TOO_LONG', reason: 'prompt_too_long', is_recoverable: true, tries: 1 })
  })

  test('whose conversation is damaged tries again with the recovery prompt, in a new conversation', async () => {
    const context = 'damaged'
    await tasks.model([{ say: 'hello' }])
    const before = await tasks.run({ agent: 'claude', prompt: 'hello', context })
    const model = await tasks.model([refusal(400), { say: 'recovered' }])
    const task = await tasks.run({ agent: 'claude', prompt: 'more', context, recovery_prompt: 'start over' })
    expect(task).toMatchObject({ outcome: 'SUCCESS', tries: 2, response_text: 'recovered', error_message: null, prompt: 'more' })
    expect(task.agent_session_id).not.toBe(before.agent_session_id)
    const [refused, recovered] = model.requests.filter(({ isTurn }) => isTurn)
    expect([refused?.body.includes('hello'), recovered?.body.includes('hello'), recovered?.body.includes('start over')]).toEqual([
      true,
      false,
      true,
    ])
    const told = (await tasks.events(task.id)).filter(({ type }) => type === 'status').map(({ status }) => status)
    expect(told).toEqual(['preparing', 'running', 'recovering', 'done'])
  })

  test.each(['malformed', 'cut'] as const)('ends when the stream of the model is %s', async kind => {
    await tasks.model([kind === 'cut' ? { cut: true } : { malformed: true }])
    const task = await tasks.run({ agent: 'claude', prompt: 'hello', timeout_sec: 50 })
    expect(task.outcome).not.toBe('SUCCESS')
    expect(task.error_message).toMatch(/\w+/)
  })

  test('passes on quotes, emoji, and what looks like a flag; NUL is refused', async () => {
    const prompt = `--help "quoted" 'single' $(echo no) \`x\` 😀 \\ %s`
    const model = await tasks.model([{ say: 'ok' }])
    expect(await tasks.run({ agent: 'claude', prompt })).toMatchObject({ outcome: 'SUCCESS', prompt })
    const [{ body = '' } = {}] = model.requests.filter(({ isTurn }) => isTurn)
    expect(JSON.stringify(JSON.parse(body).messages)).toContain(JSON.stringify(prompt).slice(1, -1))
    for (const bad of ['', 'a\0b', 'x'.repeat(10_001)]) {
      const reply = await tasks.daemon.call('POST', '/v1/tasks', { agent: 'claude', prompt: bad })
      expect([reply.status, reply.json().error.code]).toEqual([400, 'INVALID_REQUEST'])
    }
  })

  test('waits while its context is busy, or is refused by choice; one that waits can be stopped', async () => {
    const asked = Promise.withResolvers<void>()
    await tasks.model([{ say: 'first', after: asked.promise }, { say: 'second' }])
    const context = 'busy'
    const one = await tasks.create({ agent: 'claude', prompt: 'one', context })
    const two = await tasks.create({ agent: 'claude', prompt: 'two', context })
    const three = await tasks.create({ agent: 'claude', prompt: 'three', context })
    const refused = await tasks.daemon.call('POST', '/v1/tasks', { agent: 'claude', prompt: 'four', context, on_busy: 'refuse' })
    expect([refused.status, refused.json().error.code]).toEqual([409, 'CONTEXT_BUSY'])
    const stopped = (await tasks.daemon.call('POST', `/v1/tasks/${three.id}/stop`)).json()
    expect(stopped).toMatchObject({
      status: 'done',
      outcome: 'CONTAINER_FAILED',
      reason: 'stopped',
    })
    asked.resolve()
    const [first, second] = [await tasks.ended(one.id), await tasks.ended(two.id)]
    expect([first.response_text, second.response_text]).toEqual(['first', 'second'])
    expect(second.resumed_from).toBe(first.agent_session_id)
    expect(second.started_at >= first.ended_at).toBe(true)
  })

  test('has no key: says which secret is missing and how to set it', async () => {
    await tasks.daemon.call('DELETE', '/v1/secrets/agent.claude')
    const reply = await tasks.daemon.call('POST', '/v1/tasks', { agent: 'claude', prompt: 'hello' })
    expect(reply.status).toBe(409)
    expect(reply.json().error).toMatchObject({
      code: 'AGENT_KEY_MISSING',
      hint: expect.stringContaining('secret set agent.claude'),
    })
    await tasks.daemon.call('PUT', '/v1/secrets/agent.claude', { value: KEYS.claude, preset: 'anthropic' })
  })
})
