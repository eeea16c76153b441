// Codex and OpenCode themselves, in sandboxes of the oci backend, against a stub model through interception.
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { KEYS, startTasks, type TaskDaemon } from './task-daemon.ts'

let tasks: TaskDaemon
beforeAll(async () => {
  tasks = await startTasks({}, ['codex', 'opencode'])
}, 300_000)
afterAll(() => tasks[Symbol.asyncDispose]())

const MODELS = { codex: 'gpt-5.1', opencode: 'anthropic/claude-sonnet-4-5' } as const

describe.each(['codex', 'opencode'] as const)('a task with %s', { timeout: 120_000 }, agent => {
  const context = `conversation with ${agent}`
  const model = MODELS[agent]

  test('runs a tool, answers, and gives events and usage; the key is inserted on the way', async () => {
    const stub = await tasks.model([{ run: 'echo made > /workspace/file; env' }, { say: 'It is done.' }])
    const task = await tasks.run({ agent, model, prompt: 'make a "file" 😀', context })
    expect(task).toMatchObject({ outcome: 'SUCCESS', reason: 'completed', response_text: 'It is done.', exit_code: 0 })
    expect(task.agent_session_id).toMatch(/\w{6,}/)
    expect(task.usage.input_tokens).toBeGreaterThan(0)
    const events = await tasks.events(task.id, '?raw=true')
    const types = events.map(({ type }) => type)
    expect(types).toEqual(expect.arrayContaining(['init', 'text', 'tool_use', 'tool_result', 'usage']))
    const turns = stub.requests.filter(({ isTurn }) => isTurn)
    const keys = turns.map(({ headers }) => headers['x-api-key'] ?? headers.authorization)
    expect(keys).toEqual([KEYS[agent], KEYS[agent]].map(key => (agent === 'codex' ? `Bearer ${key}` : key)))
    expect(JSON.stringify(events)).not.toContain(KEYS[agent])
    expect(turns[0]?.body).toContain('😀')
  })

  test('goes on with the conversation of its context', async () => {
    const stub = await tasks.model([{ say: 'I remember.' }])
    const task = await tasks.run({ agent, model, prompt: 'what was it?', context })
    expect(task).toMatchObject({ outcome: 'SUCCESS', response_text: 'I remember.', resumed_from: expect.any(String) })
    expect(stub.requests.find(({ isTurn }) => isTurn)?.body).toContain('make a')
  })

  test.each([
    [401, 'SESSION_CORRUPTED', 'auth'],
    [400, 'SESSION_CORRUPTED', 'bad_request'],
  ])('that the model answers with %i ends as %s, %s', async (status, outcome, reason) => {
    await tasks.model([{ fail: status }])
    expect(await tasks.run({ agent, model, prompt: 'hello', timeout_sec: 60 })).toMatchObject({ outcome, reason })
  })

  test('that takes too long is ended', async () => {
    await tasks.model([{ hang: true }])
    expect(await tasks.run({ agent, model, prompt: 'hello', timeout_sec: 8 })).toMatchObject({ outcome: 'TIMEOUT' })
  })
})
