// The facade of the SDK with Claude Code itself, against a stub model, and the example that uses it.
import { execFile } from 'node:child_process'
import { mkdtempSync, readdirSync, readFileSync, rmSync, statSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { connectLocal, Sandbox, type TaskEvent } from '@sandglass/sdk/node'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { startTasks, type TaskDaemon } from './task-daemon.ts'

const run = promisify(execFile)

let tasks: TaskDaemon
let sandbox: Sandbox
let folder: string
beforeAll(async () => {
  tasks = await startTasks()
  folder = mkdtempSync(join(tmpdir(), 'sg-sdk-tasks-'))
  sandbox = new Sandbox({ client: connectLocal({ dataDir: tasks.daemon.dataDir, start: false }) })
  await sandbox.startup({ agents: ['claude'] })
}, 300_000)
afterAll(async () => {
  await sandbox?.shutdown()
  await tasks?.[Symbol.asyncDispose]()
  rmSync(folder, { recursive: true, force: true })
})

describe('the facade', { timeout: 90_000 }, () => {
  const executionContextId = 'mail 17/ä?'

  test('executes a prompt, gives its events, and copies the state of the context', async () => {
    await tasks.model([{ run: 'curl -s https://elsewhere.example.org/; echo "$TOKEN"' }, { say: 'Hello.' }])
    const task = sandbox.createTask({
      executionContextId,
      agent: 'claude',
      sessionDir: join(folder, 'session'),
      networkLogDir: join(folder, 'session'),
      env: { TOKEN: 'plain' },
      maskedSecrets: { TOKEN: { value: 'the-real-value-of-it', scopes: ['api.example.com'] } },
      networkSandbox: { domains: ['docs.example.com'] },
    })
    const events: TaskEvent[] = []
    const result = await task.execute('greet', { onEvent: event => void events.push(event) })
    expect(result).toMatchObject({ outcome: 'SUCCESS', reason: 'completed', responseText: 'Hello.', isError: false, exitCode: 0 })
    expect(events.map(({ id }) => id)).toEqual(events.map((_, index) => index + 1))
    expect(JSON.stringify(events)).not.toMatch(/the-real-value-of-it|plain/)

    const context = JSON.parse(readFileSync(join(folder, 'session/context.json'), 'utf8'))
    expect(context).toMatchObject({ execution_context_id: executionContextId, replies: [{ response_text: 'Hello.' }] })
    expect(statSync(join(folder, 'session/context.json')).mode & 0o777).toBe(0o600)
    const state = readdirSync(join(folder, 'session/claude'), { recursive: true }).map(String)
    expect(state.some(name => name.endsWith(`${result.sessionId}.jsonl`))).toBe(true)
    expect(readFileSync(join(folder, 'session/network-sandbox.log'), 'utf8')).toContain('elsewhere.example.org')
    expect((await task.networkLog.entries()).some(({ host }) => host === 'elsewhere.example.org')).toBe(true)

    expect(await task.sessionStore.getSessionIdForResume()).toBe(result.sessionId)
    expect(await task.sessionStore.getLastSuccessfulResponse()).toBe('Hello.')
  })

  test('goes on with the last conversation, or begins another', async () => {
    const task = sandbox.createTask({ executionContextId, agent: 'claude' })
    const first = await task.sessionStore.getSessionIdForResume()
    await tasks.model([{ say: 'Again.' }, { say: 'Anew.' }])
    expect(await task.execute('again')).toMatchObject({ sessionId: first, responseText: 'Again.' })
    const { sessionId } = await task.execute('anew', { sessionId: null })
    expect(sessionId).not.toBe(first)
  })

  test('ends as stopped when another program stops the context', async () => {
    await tasks.model([{ run: 'sleep 600' }, { say: 'never' }])
    const task = sandbox.createTask({ executionContextId, agent: 'claude' })
    const elsewhere = new Sandbox({ client: connectLocal({ dataDir: tasks.daemon.dataDir }) }).createTask({ executionContextId })
    let stopped: Promise<boolean> | undefined
    const onEvent = ({ type }: TaskEvent) => {
      if (type === 'tool_use') stopped ??= elsewhere.stop()
    }
    expect(await task.execute('sleep', { onEvent })).toMatchObject({ outcome: 'CONTAINER_FAILED', reason: 'stopped' })
    expect(await stopped).toBe(true)
    expect(await elsewhere.stop()).toBe(false)
  })

  test.each(['SIGTERM', 'SIGKILL'] as const)(
    'goes on, each event once, when the daemon ends by %s and starts again',
    async signal => {
      await tasks.model([{ run: 'sleep 4; echo awake' }, { say: 'Rested.' }])
      const task = sandbox.createTask({ executionContextId, agent: 'claude' })
      let restarted: Promise<void> | undefined
      const ids: number[] = []
      const onEvent = ({ id, type }: TaskEvent) => {
        ids.push(id)
        if (type === 'tool_use') restarted ??= tasks.daemon.restart(signal)
      }
      expect(await task.execute('rest', { onEvent })).toMatchObject({ outcome: 'SUCCESS', responseText: 'Rested.' })
      await restarted
      expect(restarted).toBeDefined()
      expect(ids).toEqual(ids.map((_, index) => index + 1))
    },
  )

  test('removes a context with its secrets and its policy', async () => {
    await sandbox.removeContext(executionContextId)
    await sandbox.removeContext(executionContextId)
    const { client } = sandbox
    expect((await client.contexts.list()).map(({ id }) => id)).toEqual([])
    expect((await client.secrets.list()).filter(({ name }) => name.startsWith('context.'))).toEqual([])
    expect((await client.policies.list()).filter(({ name }) => name.startsWith('context-'))).toEqual([])
  })

  test('runs in the example', async () => {
    await tasks.model([{ say: 'Hello!' }])
    const env = { PATH: process.env.PATH, HOME: folder, SANDGLASS_DATA_DIR: tasks.daemon.dataDir }
    const { stdout } = await run(process.execPath, ['examples/run-an-agent.ts'], { env })
    expect(stdout).toMatch(/^status preparing\n(.*\n)*text Hello!\n(.*\n)*SUCCESS Hello!\n$/)
    expect((await sandbox.client.contexts.list()).map(({ id }) => id)).toEqual([])
  })
})
