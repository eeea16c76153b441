import type { ServerResponse } from 'node:http'
import { expect, test } from 'vitest'
import { SandboxClient, type TaskEvent } from './index.ts'
import { nodeFetch } from './node/index.ts'
import { type Handler, json, startServer } from './transport/server.fixture.ts'

const KEY = 'key-for-tests-0000'
const ID = 'task_0123456789abcdef'
const clientAt = (baseUrl: string) => new SandboxClient({ baseUrl, apiKey: KEY, fetch: nodeFetch() })
const at = '2026-01-01T00:00:00.000Z'

const event = (id: number, type: string, more: object = {}) => ({ id, at, type, ...more })
const send = (reply: ServerResponse, ...events: { id: number; type: string }[]) =>
  events.map(data => reply.write(`id: ${data.id}\nevent: ${data.type}\ndata: ${JSON.stringify(data)}\n\n`))
const end = (reply: ServerResponse) => reply.end('event: end\ndata: {}\n\n')
const cut = (reply: ServerResponse) => reply.write('', () => reply.destroy())

/** A server with a task that is done, whose events `handle` sends. */
const startTask = async (handle: Handler) => {
  const server = await startServer((request, reply) =>
    request.url?.includes('/events') ? handle(request, reply) : json(reply, 200, { id: ID, status: 'done' }),
  )
  return Object.assign(server, { streams: () => server.requests.filter(({ url }) => url.includes('/events')) })
}

async function idsOf(events: AsyncIterable<TaskEvent>): Promise<number[]> {
  const ids: number[] = []
  for await (const { id } of events) ids.push(id)
  return ids
}

test('events are resumed after every cut, each once, and end with the task', async () => {
  const log = Array.from({ length: 12 }, (_, i) => event(i + 1, 'text', { text: `line ${i + 1}` }))
  log.push(event(13, 'status', { status: 'done' }))
  await using server = await startTask((request, reply) => {
    const after = Number(request.headers['last-event-id'] ?? 0)
    // A careless daemon repeats the event that the client has.
    const rest = log.filter(({ id }) => id >= after).slice(0, 4)
    send(reply, ...rest)
    if (rest.length < 4 && rest.at(-1)?.id === 13) end(reply)
    else cut(reply)
  })
  expect(await idsOf(clientAt(server.url).tasks.events(ID))).toEqual(log.map(({ id }) => id))
  expect(server.streams().map(({ headers }) => headers['last-event-id'])).toEqual([undefined, '4', '7', '10', '13'])
})

test('a resumed stream does not ask for the last events again', async () => {
  await using server = await startTask((request, reply) => {
    if (request.headers['last-event-id'] === undefined) {
      send(reply, event(8, 'text'), event(9, 'text'))
      cut(reply)
    } else {
      send(reply, event(10, 'text'), event(11, 'text'), event(12, 'status', { status: 'done' }))
      end(reply)
    }
  })
  expect(await idsOf(clientAt(server.url).tasks.events(ID, { tail: 2, raw: true }))).toEqual([8, 9, 10, 11, 12])
  expect(server.streams().map(({ url }) => url)).toEqual([
    `/v1/tasks/${ID}/events?raw=true&tail=2`,
    `/v1/tasks/${ID}/events?raw=true`,
  ])
})

test('with follow: false the events so far come, and a cut before their end is resumed', async () => {
  await using server = await startTask((request, reply) => {
    if (request.headers['last-event-id'] === '3') {
      send(reply, event(4, 'text'))
      cut(reply)
    } else {
      send(reply, event(5, 'text'))
      reply.end()
    }
  })
  expect(await idsOf(clientAt(server.url).tasks.events(ID, { after: 3, follow: false }))).toEqual([4, 5])
})

test('the input of a tool keeps its keys, and an error of the agent is an event', async () => {
  await using server = await startTask((_, reply) => {
    const input = { file_path: 'a', old_string: 'b' }
    send(reply, event(1, 'tool_use', { tool_use_id: 't', input }), event(2, 'error', { text: 'overloaded', is_error: true }))
    send(reply, event(3, 'status', { status: 'done' }))
    end(reply)
  })
  const events: TaskEvent[] = []
  for await (const one of clientAt(server.url).tasks.events(ID)) events.push(one)
  expect(events).toEqual([
    { id: 1, at, type: 'tool_use', toolUseId: 't', input: { file_path: 'a', old_string: 'b' } },
    { id: 2, at, type: 'error', text: 'overloaded', isError: true },
    { id: 3, at, type: 'status', status: 'done' },
  ])
})

test('a stream that ends before its task is resumed, and one of a task that is done ends', async () => {
  let streams = 0
  await using server = await startServer((request, reply) => {
    if (!request.url?.includes('/events')) return json(reply, 200, { id: ID, status: streams < 2 ? 'running' : 'done' })
    if (++streams < 3) send(reply, event(streams, 'text'))
    end(reply)
  })
  const { tasks } = clientAt(server.url)
  expect(await idsOf(tasks.events(ID))).toEqual([1, 2])
  expect(await idsOf(tasks.events(ID, { after: 2 }))).toEqual([])
  expect(streams).toBe(3)
})

test('a failure of the stream is an error, and not an event', async () => {
  await using server = await startServer((_, reply) => {
    send(reply, event(1, 'text'))
    reply.end(
      `event: error\ndata: ${JSON.stringify({ error: { code: 'TASK_NOT_FOUND', message: 'gone', detail: { id: ID } } })}\n\n`,
    )
  })
  await expect(idsOf(clientAt(server.url).tasks.events(ID))).rejects.toMatchObject({ code: 'TASK_NOT_FOUND' })
})

test('an aborted reader of events gets the reason of the abort', async () => {
  await using server = await startServer((_, reply) => void send(reply, event(1, 'text')))
  const aborting = new AbortController()
  const events = clientAt(server.url).tasks.events(ID, { signal: aborting.signal })
  await events.next()
  aborting.abort(new Error('enough'))
  await expect(events.next()).rejects.toThrow('enough')
})

test('wait resolves with the state of the task when it is done', async () => {
  let isDone = false
  await using server = await startServer((request, reply) => {
    if (!request.url?.includes('/events')) return json(reply, 200, { id: ID, status: isDone ? 'done' : 'running' })
    isDone = true
    send(reply, event(7, 'status', { status: 'done' }))
    end(reply)
  })
  expect(await clientAt(server.url).tasks.wait(ID)).toMatchObject({ id: ID, status: 'done' })
})

test('a created task is repeated under one key after a lost reply', async () => {
  await using server = await startServer((_, reply) => {
    if (server.requests.length === 1) reply.destroy()
    else json(reply, 201, { items: [{ id: ID, status: 'queued', agent_session_id: null }] })
  })
  const spec = { prompt: 'hello', mcp: { my_server: { command: ['x'], envName: 'A_B' } } }
  expect(await clientAt(server.url).tasks.create(spec)).toEqual([{ id: ID, status: 'queued', agentSessionId: null }])
  const [first, second] = server.requests
  expect(first?.headers['idempotency-key']).toMatch(/^[0-9a-f]{32}$/)
  expect(second?.headers['idempotency-key']).toBe(first?.headers['idempotency-key'])
  expect(JSON.parse(second?.text ?? '')).toEqual({ prompt: 'hello', mcp: { my_server: { command: ['x'], env_name: 'A_B' } } })
})

test('the id of a context is any text, and is one part of the path', async () => {
  await using server = await startServer((request, reply) => {
    if (request.url?.endsWith('/file')) json(reply, 200, FILE)
    else json(reply, 200, { ok: true })
  })
  const { contexts } = clientAt(server.url)
  for (const id of ['a/b?c#d', '../sessions', 'naïve 会話 %2F']) await contexts.remove(id)
  expect(server.requests.map(({ url }) => url)).toEqual([
    '/v1/contexts/a%2Fb%3Fc%23d',
    '/v1/contexts/..%2Fsessions',
    '/v1/contexts/na%C3%AFve%20%E4%BC%9A%E8%A9%B1%20%252F',
  ])
  for (const id of ['.', '..', '\ud800']) await expect(contexts.remove(id)).rejects.toMatchObject({ code: 'INVALID_REQUEST' })
  expect(server.requests).toHaveLength(3)
})

const FILE = {
  execution_context_id: 'a b',
  model: null,
  replies: [
    { task_id: ID, session_id: 's', usage: { input_tokens: 1 }, events: [{ session_id: 's', parent_tool_use_id: null }] },
  ],
}

test('context.json is read with the names of the SDK, and the lines of the agent as they are', async () => {
  await using server = await startServer((_, reply) => json(reply, 200, FILE))
  expect(await clientAt(server.url).contexts.file('a b')).toEqual({
    executionContextId: 'a b',
    model: null,
    replies: [{ taskId: ID, sessionId: 's', usage: { inputTokens: 1 }, events: [{ session_id: 's', parent_tool_use_id: null }] }],
  })
})

test('installing an agent reports its progress and resolves when it is done', async () => {
  const progress = (step: string) => ({ step, agent: 'codex', version: '1.2.3', bytes: 5, total_bytes: null })
  await using server = await startServer((request, reply) => {
    const steps = request.text.includes('9.9.9') ? ['download'] : ['download', 'unpack', 'done']
    for (const step of steps) reply.write(`event: ${step}\ndata: ${JSON.stringify(progress(step))}\n\n`)
    reply.end()
  })
  const { agents } = clientAt(server.url)
  const steps: string[] = []
  const done = await agents.install('codex', { onProgress: ({ step }) => void steps.push(step) })
  expect(done).toMatchObject({ version: '1.2.3', totalBytes: null })
  expect(steps).toEqual(['download', 'unpack', 'done'])
  await expect(agents.install('codex', { version: '9.9.9' })).rejects.toMatchObject({ code: 'DAEMON_UNREACHABLE' })
})

test('the screen of an agent is prepared in a session', async () => {
  await using server = await startServer((_, reply) => json(reply, 200, { argv: ['claude'], env: { some_NAME: 'x' } }))
  const session = clientAt(server.url).session('calm-otter')
  const baseUrl = 'https://gateway.example.com'
  expect(await session.prepareAgent('claude', { model: 'm', baseUrl })).toEqual({ argv: ['claude'], env: { some_NAME: 'x' } })
  expect(server.requests.map(({ url, text }) => [url, JSON.parse(text)])).toEqual([
    ['/v1/sessions/calm-otter/agents/claude', { model: 'm', base_url: baseUrl }],
  ])
})

test('an upload is sent as it is, and a patch that breaks off is an error', async () => {
  await using server = await startServer((request, reply) => {
    if (request.url === '/v1/uploads') json(reply, 201, { id: 'upl_0123456789abcdef', bytes: 3, sha256: 'x', expires_at: at })
    else reply.writeHead(200, { 'content-length': '10' }).write('diff', () => reply.destroy())
  })
  const client = clientAt(server.url)
  expect(await client.uploads.create(new TextEncoder().encode('abc'))).toMatchObject({ bytes: 3, expiresAt: at })
  expect(server.requests[0]?.text).toBe('abc')
  const patch = await client.tasks.patch(ID)
  await expect(new Response(patch).text()).rejects.toMatchObject({ code: 'DAEMON_UNREACHABLE' })
})
