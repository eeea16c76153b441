// Agents on the other backends: the same programs, policies and events.
import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { resolve } from 'node:path'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { KEYS, startTasks, type TaskDaemon } from './task-daemon.ts'

let engine: ChildProcess
let tasks: TaskDaemon
beforeAll(async () => {
  engine = spawn(process.execPath, [resolve('tools/docker-engine.ts')], { stdio: ['pipe', 'pipe', 'inherit'] })
  const [line] = await once(engine.stdout ?? engine, 'data')
  const docker = { api_endpoint: `unix://${JSON.parse(String(line)).socket}`, allow_unenforced: ['disk'] }
  tasks = await startTasks({ backends: { docker } })
}, 120_000)
afterAll(async () => {
  await tasks?.[Symbol.asyncDispose]()
  engine.stdin?.end()
  if (engine.exitCode === null) await once(engine, 'exit')
}, 60_000)

// Emulated processors take long to start a program of 200 MB; codex is the smallest of the three.
test.each([
  ['docker', 'claude'],
  ['microvm', 'codex'],
] as const)(
  'a task on %s runs %s with a tool, and its conversation goes on in the next one',
  { timeout: 300_000 },
  async (backend, agent) => {
    const context = `on ${backend}`
    const model = await tasks.model([{ run: 'echo made > /workspace/file' }, { say: 'It is done.' }])
    const first = await tasks.run({ agent, backend, context, prompt: 'make a file' })
    expect(first).toMatchObject({ outcome: 'SUCCESS', response_text: 'It is done.' })
    const [turn] = model.requests.filter(({ isTurn }) => isTurn)
    expect(turn?.headers['x-api-key'] ?? turn?.headers.authorization).toContain(KEYS[agent])
    await tasks.model([{ run: 'cat /workspace/file' }, { say: 'still here' }])
    const second = await tasks.run({ agent, context, prompt: 'is it there?' })
    expect(second).toMatchObject({ outcome: 'SUCCESS', session_id: first.session_id, resumed_from: first.agent_session_id })
    expect((await tasks.events(second.id)).find(({ type }) => type === 'tool_result').content).toContain('made')
  },
)
