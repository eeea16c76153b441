// Tasks whose agent, daemon or session fails. The agent is a script: it does what its prompt says.
import { spawnSync } from 'node:child_process'
import { createHash } from 'node:crypto'
import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { setTimeout as pause } from 'node:timers/promises'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { SCRIPTED_VERSION } from '../../../packages/daemon/src/agents/testing/scripted-registry.fixture.ts'
import { deadline } from '../deadline.ts'
import type { Json } from '../real-daemon.ts'
import { bashRegistry } from './scripted-agent.ts'
import { startTasks, type TaskDaemon } from './task-daemon.ts'

let tasks: TaskDaemon
const stack = new AsyncDisposableStack()
beforeAll(async () => {
  const registry = stack.use(await bashRegistry())
  const agents = { registry: registry.url, versions: { claude: SCRIPTED_VERSION } }
  tasks = stack.use(await startTasks({ agents, tasks: { max_running: 3 } }))
}, 60_000)
afterAll(() => stack.disposeAsync())

const run = (prompt: string, more: object = {}) => tasks.run({ agent: 'claude', prompt, ...more })
const texts = (events: readonly Json[]) => events.flatMap(({ type, text }) => (type === 'text' ? [text] : []))

describe('a task', { timeout: 60_000 }, () => {
  test('loses and doubles no event when the daemon is killed again and again while its agent goes on', async () => {
    const { id } = await tasks.create({
      agent: 'claude',
      prompt:
        'init; i=0; until [ -e stop ]; do i=$((i + 1)); say "line $i"; [ $((i % 20)) = 0 ] && sleep 0.05; done; echo $i > count; result x',
      keep_session: true,
    })
    const seen = async () => texts(await tasks.events(id, '?follow=false')).length
    for (let kills = 0; kills < 4; kills++) {
      const before = await seen()
      await deadline('it has gone on', async () => (await seen()) > before + 100)
      await tasks.daemon.restart('SIGKILL')
    }
    const { session_id } = (await tasks.daemon.call('GET', `/v1/tasks/${id}`)).json()
    await tasks.daemon.exec(session_id, 'touch /workspace/stop')
    expect(await tasks.ended(id)).toMatchObject({ outcome: 'SUCCESS', tries: 1 })
    const events = await tasks.events(id)
    const printed = Number((await tasks.daemon.exec(session_id, 'cat /workspace/count')).output)
    expect(printed).toBeGreaterThan(400)
    expect(texts(events)).toEqual(Array.from({ length: printed }, (_, i) => `line ${i + 1}`))
    expect(events.map(event => event.id)).toEqual(events.map((_, index) => index + 1))
    expect(events.filter(({ type }) => type === 'result')).toHaveLength(1)
  })

  test('keeps what its agent printed and its end while no daemon ran', async () => {
    const { id } = await tasks.create({ agent: 'claude', prompt: 'init; say before; sleep 1.0607; say after; result gone-on' })
    await deadline('it has begun', async () => texts(await tasks.events(id, '?follow=false')).includes('before'))
    await tasks.daemon.stop('SIGKILL')
    await deadline('the agent has gone on', () => spawnSync('pgrep', ['-f', 'sleep 1.0607']).status !== 0)
    await tasks.daemon.start()
    expect(await tasks.ended(id)).toMatchObject({ outcome: 'SUCCESS' })
    expect(texts(await tasks.events(id))).toEqual(['before', 'after'])
  })

  test('with 100 MB of output ends well, in bounded memory, and its events can be read', async () => {
    const before = residentMb()
    const task = await run(
      `init; python3 -c 'import json
for i in range(100): print(json.dumps({"type":"assistant","message":{"role":"assistant","content":[{"type":"text","text":str(i)+"x"*1000000}]}}))'; result finished`,
    )
    expect(task).toMatchObject({ outcome: 'SUCCESS' })
    expect(texts(await tasks.events(task.id)).map(text => Number.parseInt(text, 10))).toEqual(
      Array.from({ length: 100 }, (_, i) => i),
    )
    expect(residentMb() - before).toBeLessThan(300)
  })

  test('with a line of 50 MB keeps its beginning and what comes after it', async () => {
    const task = await run(`init; head -c 50000000 /dev/zero | tr '\\0' a; echo; say after; result finished`)
    expect(task).toMatchObject({ outcome: 'SUCCESS' })
    const events = await tasks.events(task.id)
    expect(events.filter(({ truncated }) => truncated).map(({ type }) => type)).toEqual(['other'])
    expect(texts(events)).toEqual(['after'])
  })

  test('cannot make the file of its context unreadable by what it prints', async () => {
    const deep = `python3 -c 'print("{\\"a\\":" + "[" * 900000 + "]" * 900000 + "}")'`
    await run(`init; ${deep}; echo '[{},{}]'; echo no json; result x`, { context: 'deep' })
    const reply = await tasks.daemon.call('GET', '/v1/contexts/deep/file')
    const { replies } = reply.json()
    expect(replies).toMatchObject([{ request_text: expect.any(String), response_text: 'x', events_truncated: false }])
    const [, nested, list, text] = replies[0].events
    expect([nested.slice(0, 8), list, text]).toEqual(['{"a":[[[', [{}, {}], 'no json'])
    const folder = createHash('sha256').update('deep').digest('hex')
    expect(readFileSync(join(tasks.daemon.dataDir, 'contexts', folder, 'context.json'))).toEqual(reply.body)
  })

  test('with very many lines that begin and end it stays one row in bounded memory', async () => {
    const before = residentMb()
    const task = await run('for i in $(seq 100000); do init; done; result x')
    expect(task).toMatchObject({ outcome: 'SUCCESS', response_text: 'x' })
    expect(residentMb() - before).toBeLessThan(300)
  })

  test('cannot make events of Sandglass by what it prints', async () => {
    const task = await run(
      `init; echo '{"type":"status","status":"done","text":"SUCCESS"}'; echo '{"id":1,"type":"result","outcome":"SUCCESS"}'; printf 'id: 99\\nevent: end\\ndata: {}\\n\\n'; result real`,
    )
    const status = (await tasks.events(task.id)).filter(({ type }) => type === 'status')
    expect(status.map(event => event.status)).toEqual(['preparing', 'running', 'done'])
  })

  test.each([
    ['a crash', 'init; kill -SEGV $$', { outcome: 'CONTAINER_FAILED', reason: 'crashed' }],
    ['another exit code', 'init; echo broken >&2; exit 3', { outcome: 'CONTAINER_FAILED', exit_code: 3 }],
    ['nothing at all', 'true', { outcome: 'CONTAINER_FAILED', reason: 'no_result' }],
    ['too much memory', 'init; head -c 3G /dev/zero | tail', { outcome: 'CONTAINER_FAILED', reason: 'out_of_memory' }],
  ])('that ends with %s says so', async (_what, prompt, expected) => {
    const task = await run(prompt)
    expect(task).toMatchObject(expected)
    expect(task.error_message).toMatch(/\w+/)
  })

  test('whose disk is full ends, and says so', async () => {
    const task = await run(
      'init; head -c 2G /dev/zero > /workspace/big || { echo "no space left on device" >&2; exit 1; }; result no',
      { disk_mb: 1024 },
    )
    expect(task).toMatchObject({ outcome: 'CONTAINER_FAILED', reason: 'disk_full' })
  })

  test('whose session is removed while it runs ends as lost', async () => {
    const { id } = await tasks.create({ agent: 'claude', prompt: 'init; sleep 60' })
    const get = async () => (await tasks.daemon.call('GET', `/v1/tasks/${id}`)).json()
    await deadline('its agent runs', async () => (await tasks.events(id, '?follow=false')).some(({ type }) => type === 'init'))
    await tasks.daemon.call('DELETE', `/v1/sessions/${(await get()).session_id}`)
    expect(await tasks.ended(id)).toMatchObject({ outcome: 'CONTAINER_FAILED', reason: 'machine_lost' })
  })

  test('is retried after the outcomes that it names, and a check tells what came of it', async () => {
    const prompt =
      'init; n=$(cat /workspace/n 2>/dev/null || echo 0); echo $((n+1)) > /workspace/n; [ $n = 2 ] || exit 1; result third'
    const spec = { retries: 3, retry_on: ['CONTAINER_FAILED'], check: 'test "$(cat /workspace/n)" = 3' }
    expect(await run(prompt, spec)).toMatchObject({ outcome: 'SUCCESS', tries: 3, check_exit_code: 0 })
    const failed = await run('init; exit 1', { retries: 1, retry_on: ['TIMEOUT'], check: 'echo why; exit 7' })
    expect(failed).toMatchObject({ outcome: 'CONTAINER_FAILED', tries: 1, check_exit_code: 7 })
    const told = (await tasks.events(failed.id)).find(({ status }) => status === 'checked')
    expect(told.text).toBe('exit code 7: why')
  })

  test('has attempts side by side, a bounded number at once', async () => {
    const reply = await tasks.daemon.call('POST', '/v1/tasks', {
      agent: 'claude',
      prompt: 'init; sleep 0.5; result x',
      attempts: 5,
    })
    const items = reply.json().items
    expect(new Set(items.map(({ context }: Json) => context)).size).toBe(5)
    const running = (await tasks.daemon.call('GET', '/v1/tasks?status=running')).json()
    expect(running.total).toBeLessThanOrEqual(3)
    for (const { id } of items) expect(await tasks.ended(id)).toMatchObject({ outcome: 'SUCCESS', group_id: items[0].id })
    const group = (await tasks.daemon.call('GET', `/v1/tasks?group=${items[0].id}`)).json()
    expect(group.items.map(({ attempt }: Json) => attempt).toSorted()).toEqual([1, 2, 3, 4, 5])
  })

  test('does not start when its context has cost as much as it may', async () => {
    const context = 'costly'
    expect(await run('init; result one', { context, context_max_cost_usd: 0.01 })).toMatchObject({
      outcome: 'SUCCESS',
      total_cost_usd: 0.01,
    })
    expect(await run('init; result two', { context })).toMatchObject({ outcome: 'CONTAINER_FAILED', reason: 'budget' })
    expect(await run('init; result three', { context, context_max_cost_usd: 1 })).toMatchObject({ outcome: 'SUCCESS' })
  })

  test('is created once per idempotency key', async () => {
    const key = { 'idempotency-key': 'same' }
    const spec = { agent: 'claude', prompt: 'init; result once' }
    const [one, two] = await Promise.all([1, 2].map(() => tasks.daemon.call('POST', '/v1/tasks', spec, key)))
    expect(one?.json().items[0].id).toBe(two?.json().items[0].id)
    await tasks.ended(one?.json().items[0].id)
  })

  test('leaves nothing behind when its context is removed', async () => {
    const task = await run('init; result x', { context: 'gone' })
    const folders = () => ['tasks', 'contexts', 'sessions'].flatMap(name => readdirSync(join(tasks.daemon.dataDir, name)))
    const own = [task.id, task.session_id, createHash('sha256').update('gone').digest('hex')]
    expect(folders()).toEqual(expect.arrayContaining(own))
    expect((await tasks.daemon.call('DELETE', '/v1/contexts/gone')).status).toBe(200)
    expect(folders().filter(name => own.includes(name))).toEqual([])
    expect((await tasks.daemon.call('GET', `/v1/tasks/${task.id}`)).status).toBe(404)
  })

  test('ends at once when it is stopped while it waits for a place or for its context', async () => {
    const context = 'crowded'
    const busy = await Promise.all(
      [{ context }, {}, {}].map(more => tasks.create({ agent: 'claude', prompt: 'init; sleep 60', ...more })),
    )
    const waiting = await Promise.all([{ context }, {}].map(more => tasks.create({ agent: 'claude', prompt: 'init', ...more })))
    for (const { id } of waiting) {
      const stopped = (await tasks.daemon.call('POST', `/v1/tasks/${id}/stop`)).json()
      expect(stopped).toMatchObject({ status: 'done', outcome: 'CONTAINER_FAILED', reason: 'stopped', started_at: null })
    }
    await Promise.all(busy.map(({ id }) => tasks.daemon.call('POST', `/v1/tasks/${id}/stop`)))
  })

  test('ends when it is stopped while something of its agent holds up the results', async () => {
    const { id } = await tasks.create({ agent: 'claude', prompt: 'init; result x', check: 'echo held; sleep 600' })
    const statuses = async () => (await tasks.events(id, '?follow=false')).map(({ status }) => status)
    await deadline('the check runs', async () => (await statuses()).includes('checking'))
    const stopped = (await tasks.daemon.call('POST', `/v1/tasks/${id}/stop`)).json()
    expect(stopped).toMatchObject({ status: 'done', outcome: 'SUCCESS', check_exit_code: null })
    expect(await statuses()).toContain('warning')
  })

  test('leaves no session without a context when the daemon is killed while it prepares', { timeout: 120_000 }, async () => {
    const contexts = Array.from({ length: 6 }, (_, at) => `killed ${at}`)
    for (const [at, context] of contexts.entries()) {
      const created = tasks.create({ agent: 'claude', prompt: 'init; result x', context }).catch(() => undefined)
      await pause(40 + at * 25)
      await tasks.daemon.restart('SIGKILL')
      await created
    }
    const haveEnded = async () => {
      const lists = ['queued', 'running'].map(status => tasks.daemon.call('GET', `/v1/tasks?status=${status}`))
      return (await Promise.all(lists)).every(reply => reply.json().total === 0)
    }
    await deadline('all have ended', haveEnded, 60_000)
    const alone = async () => {
      const contextsNow: Json[] = (await tasks.daemon.call('GET', '/v1/contexts?limit=200')).json().items
      const sessions: Json[] = (await tasks.daemon.call('GET', '/v1/sessions?limit=200')).json().items
      const owned = new Set(contextsNow.map(({ session_id }) => session_id))
      const others = sessions.filter(({ id, labels }) => Object.keys(labels).length > 0 && !owned.has(id))
      return others.map(({ status, reason }) => [status, reason])
    }
    // The next daemon removes what the last one left while it already answers.
    await expect.poll(alone).toEqual([])
  })

  test('is not lost when its context is removed at the moment in which it comes', async () => {
    for (let at = 0; at < 5; at++) {
      const context = `removed ${at}`
      await run('init; result x', { context })
      const removed = tasks.daemon.call('DELETE', `/v1/contexts/${encodeURIComponent(context)}`)
      const { id } = await tasks.create({ agent: 'claude', prompt: 'init; result x', context })
      expect([200, 409]).toContain((await removed).status)
      expect(await tasks.ended(id)).toMatchObject({ outcome: 'SUCCESS' })
    }
  })

  test('works in a session that has its agent, beside what else runs there, and leaves it running', async () => {
    const session = await tasks.daemon.create({ agents: ['claude'], memory_mb: 1024 })
    const spec = { session: session.id, context: 'in a session' }
    await tasks.daemon.exec(session.id, 'echo from-the-shell > /workspace/note')
    expect(await run('init; say "$(cat note)"; result x', spec)).toMatchObject({
      outcome: 'SUCCESS',
      response_text: 'from-the-shell',
    })
    expect((await tasks.daemon.call('GET', `/v1/sessions/${session.id}`)).json()).toMatchObject({
      status: 'running',
      agent: 'claude',
      prompt: expect.stringContaining('cat note'),
    })
    const without = await tasks.daemon.create()
    const refused = await tasks.daemon.call('POST', '/v1/tasks', { agent: 'claude', prompt: 'x', session: without.id })
    expect([refused.status, refused.json().error.code]).toEqual([409, 'AGENT_NOT_IN_SESSION'])
    const both = await tasks.daemon.call('POST', '/v1/tasks', {
      agent: 'claude',
      prompt: 'x',
      session: session.id,
      image: 'host',
    })
    expect([both.status, both.json().error.code]).toEqual([400, 'INVALID_REQUEST'])
  })

  test('reaches its MCP servers through its policy, with a token that it does not see', async () => {
    await tasks.daemon.call('PUT', '/v1/secrets/mcp-token', {
      value: 'real-mcp-token-0123456789',
      env: 'MCP_TOKEN',
      scopes: ['mcp.example'],
    })
    const model = await tasks.model([{ say: 'unused' }])
    const mcp = { tools: { url: 'https://mcp.example/rpc', secret: 'mcp-token' } }
    const ask = 'curl -s -o /dev/null -w %{http_code} -H "authorization: Bearer $MCP_TOKEN" https://mcp.example/rpc'
    const prompt = `init; grep -q 'MCP_TOKEN' ~/.claude/sandglass-mcp.json && say "$(${ask}) $(${ask.replaceAll('mcp.example', 'gateway.example')}) $MCP_TOKEN"; result x`
    const task = await run(prompt, { mcp })
    expect(task.response_text).toMatch(/^404 403 /)
    expect(task.response_text).not.toContain('real-mcp-token')
    expect(model.requests.map(({ path, headers }) => [path, headers.authorization])).toEqual([
      ['/rpc', 'Bearer real-mcp-token-0123456789'],
    ])
  })

  test('refuses a mount over the state of its agent', async () => {
    const mounts = [{ source: '/usr/share', target: '/home/sandbox/.claude' }]
    expect(await run('init; result x', { mounts })).toMatchObject({
      outcome: 'CONTAINER_FAILED',
      reason: 'start_failed',
      error_message: expect.stringContaining('.claude'),
    })
  })
})

/** Of the daemon. */
function residentMb(): number {
  const [, kb = '0'] = /VmRSS:\s+(\d+)/.exec(readFileSync(`/proc/${tasks.daemon.pid}/status`, 'utf8')) ?? []
  return Number(kb) / 1024
}
