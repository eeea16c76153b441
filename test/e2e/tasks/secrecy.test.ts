// The key of an agent appears only in requests to its model. Also: tasks whose model cannot be reached.
import { execFileSync } from 'node:child_process'
import { readdirSync, readFileSync, statSync } from 'node:fs'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { deadline } from '../deadline.ts'
import { KEYS, startTasks, type TaskDaemon } from './task-daemon.ts'

let tasks: TaskDaemon
beforeAll(async () => {
  tasks = await startTasks({}, ['claude'])
}, 300_000)
afterAll(() => tasks[Symbol.asyncDispose]())

describe('a task with claude', { timeout: 60_000 }, () => {
  test('has its key in no file, process, event or log, inside or outside', async () => {
    await tasks.model([
      { run: 'env | sort; cat /proc/self/environ; ls -R ~/.claude | head -50', say: 'looking' },
      { run: 'sleep 2' },
      { say: 'nothing' },
    ])
    const { id } = await tasks.create({ agent: 'claude', prompt: 'find the key', keep_session: true })
    await deadline(
      'it sleeps',
      async () => (await tasks.events(id, '?follow=false')).filter(({ type }) => type === 'tool_use').length === 2,
    )
    const processes = execFileSync('ps', ['axeww'], { encoding: 'utf8', maxBuffer: 64 * 1024 * 1024 })
    const task = await tasks.ended(id)
    expect(task.outcome).toBe('SUCCESS')
    const inside = await tasks.daemon.exec(
      task.session_id,
      `grep -rlaF 'REALreal' /workspace /home /tmp /etc /run /opt/sandglass/*/sandglass.json 2>/dev/null; env`,
    )
    const events = JSON.stringify(await tasks.events(id, '?raw=true'))
    expect(events).toContain('ANTHROPIC_API_KEY=sk-ant-api03-')
    const seen = { processes, inside: inside.output, events, log: tasks.daemon.log, task: JSON.stringify(task) }
    for (const [where, text] of Object.entries(seen)) expect(text.includes(KEYS.claude), where).toBe(false)
    for (const path of filesBelow(tasks.daemon.dataDir)) expect(contentOf(path).includes(KEYS.claude), path).toBe(false)
    await tasks.daemon.call('DELETE', `/v1/sessions/${task.session_id}`)
  })

  test('goes on when the egress process is killed', async () => {
    await tasks.model([{ run: 'sleep 1; echo slept' }, { say: 'went on' }])
    const { id } = await tasks.create({ agent: 'claude', prompt: 'sleep' })
    await deadline('it sleeps', async () => (await tasks.events(id, '?follow=false')).some(({ type }) => type === 'tool_use'))
    process.kill(JSON.parse(readFileSync(join(tasks.daemon.dataDir, 'egress.json'), 'utf8')).pid, 'SIGKILL')
    expect(await tasks.ended(id)).toMatchObject({ outcome: 'SUCCESS', response_text: 'went on' })
  })

  test('whose model cannot be reached says so', async () => {
    const model = await tasks.model([{ say: 'never' }])
    await model.close()
    const task = await tasks.run({ agent: 'claude', prompt: 'hello', timeout_sec: 55 })
    expect(task).toMatchObject({ outcome: 'CONTAINER_FAILED', reason: 'model_unreachable' })
    expect(task.error_message).toMatch(/\w+/)
  })

  test('uses a gateway under its own name, with a secret that is scoped to it', async () => {
    await tasks.daemon.call('PUT', '/v1/secrets/gateway-key', {
      value: 'gateway-key-0123456789',
      env: 'ANTHROPIC_API_KEY',
      scopes: ['gateway.example'],
      headers: ['x-api-key'],
    })
    const model = await tasks.model([{ say: 'through the gateway' }])
    const spec = { agent: 'claude', prompt: 'hello', base_url: 'https://gateway.example/anthropic', secrets: ['gateway-key'] }
    expect(await tasks.run(spec)).toMatchObject({ outcome: 'SUCCESS' })
    const turn = model.requests.find(({ isTurn }) => isTurn)
    expect([turn?.path, turn?.headers['x-api-key'], turn?.headers.host]).toEqual([
      '/anthropic/v1/messages',
      'gateway-key-0123456789',
      'gateway.example',
    ])
  })
})

/** Larger files are empty disks. */
const MAX_BYTES = 256 * 1024 * 1024

/** Plain files of the data folder, without disks of sessions, root filesystems and the agents' programs. */
function filesBelow(folder: string): string[] {
  const entries = unlessGone(() => readdirSync(folder, { withFileTypes: true }), [])
  return entries.flatMap(entry => {
    const path = join(folder, entry.name)
    if (entry.isDirectory()) return ['agents', 'images', 'sessions'].includes(entry.name) ? [] : filesBelow(path)
    const size = statSync(path, { throwIfNoEntry: false })?.size ?? MAX_BYTES
    return entry.isFile() && size < MAX_BYTES ? [path] : []
  })
}

const contentOf = (path: string): Buffer => unlessGone(() => readFileSync(path), Buffer.alloc(0))

/** The daemon runs on: it may remove a file of its own while the folder is read. */
function unlessGone<T>(read: () => T, otherwise: T): T {
  try {
    return read()
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return otherwise
    throw error
  }
}
