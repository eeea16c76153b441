// A daemon in one file, as far as the facade asks it: tasks that answer what a test says, and the context that they belong to.
import type { ServerResponse } from 'node:http'
import { type Handler, json, startServer, type TestServer } from '../../transport/server.fixture.ts'
import { SandboxClient } from '../client.ts'

const TASK_ID = 'task_0123456789abcdef'
const RESULT = {
  task_id: TASK_ID,
  outcome: 'SUCCESS',
  reason: 'completed',
  error_message: null,
  session_id: 'conversation-1',
  response_text: 'done',
  duration_ms: 12,
  total_cost_usd: 0.5,
  num_turns: 2,
  is_error: false,
  usage: { input_tokens: 3, output_tokens: 4, cache_creation_input_tokens: 0, cache_read_input_tokens: 0 },
  exit_code: 0,
  check_exit_code: null,
}

export type Answers = {
  /** Fields that replace those of the result. */
  result?: object
  /** The task runs until it is stopped. */
  runsOn?: boolean
  /** Tasks that another program runs in the context. */
  others?: string[]
  contextFile?: object
  state?: Uint8Array
  /** Answers a request in place of this daemon; false leaves it to this one. */
  instead?: (...call: Parameters<Handler>) => boolean
}

export type FixtureDaemon = AsyncDisposable & { client: SandboxClient; requests: TestServer['requests']; specs: () => unknown[] }

export async function startFixtureDaemon(answers: Answers = {}): Promise<FixtureDaemon> {
  const stopped = new Set<string>()
  const following = new Set<ServerResponse>()
  const task = (id: string) => ({ id, status: 'running', agent: 'claude', reason: stopped.has(id) ? 'stopped' : null })
  const isDone = () => !answers.runsOn || stopped.has(TASK_ID)
  const end = (reply: ServerResponse) => {
    send(reply, { id: 3, type: 'status', status: 'done' })
    reply.end('event: end\ndata: {}\n\n')
  }
  const routes: Record<string, Handler> = {
    'GET /healthz': (_, reply) => json(reply, 200, { ok: true }),
    'POST /v1/tasks': (_, reply) => json(reply, 201, { items: [task(TASK_ID)] }),
    'GET /v1/tasks': (request, reply) => {
      const items = request.url?.includes('status=running') ? (answers.others ?? []).filter(id => !stopped.has(id)) : []
      json(reply, 200, { items: items.map(task), next_cursor: null })
    },
    [`GET /v1/tasks/${TASK_ID}`]: (_, reply) => json(reply, 200, { ...task(TASK_ID), status: 'done' }),
    'GET /events': (_, reply) => {
      send(reply, { id: 1, type: 'init' })
      send(reply, { id: 2, type: 'text', text: 'hello' })
      if (isDone()) end(reply)
      else following.add(reply)
    },
    'GET /result': (_, reply) => {
      const isStopped = stopped.has(TASK_ID)
      const ending = isStopped ? { outcome: 'CONTAINER_FAILED', reason: 'stopped', is_error: true } : answers.result
      json(reply, 200, { ...RESULT, ...ending })
    },
    'POST /stop': (request, reply) => {
      const id = request.url?.split('/')[3] ?? ''
      stopped.add(id)
      for (const one of following) end(one)
      following.clear()
      json(reply, 200, { ...task(id), status: 'done' })
    },
    'GET /file': (_, reply) => (answers.contextFile ? json(reply, 200, answers.contextFile) : notFound(reply)),
    'GET /claude': (_, reply) => (answers.state ? void reply.end(answers.state) : notFound(reply)),
    'GET /v1/sessions/sess_1/network/file': (_, reply) => void reply.end('ALLOWED GET https://example.com/ -> 200\n'),
  }
  const server = await startServer((request, reply) => {
    if (answers.instead?.(request, reply)) return
    const path = request.url?.split('?')[0] ?? ''
    const route = routes[`${request.method} ${path}`] ?? routes[`${request.method} ${path.slice(path.lastIndexOf('/'))}`]
    if (route) return route(request, reply)
    if (request.method === 'GET') json(reply, 200, { id: 'x', session_id: answers.contextFile ? 'sess_1' : null })
    else json(reply, 200, { ok: true })
  })
  return {
    client: new SandboxClient({ baseUrl: server.url, apiKey: 'key-for-tests-0000' }),
    requests: server.requests,
    specs: () => server.requests.filter(r => r.method === 'POST' && r.url === '/v1/tasks').map(r => JSON.parse(r.text)),
    [Symbol.asyncDispose]: () => server[Symbol.asyncDispose](),
  }
}

const send = (reply: ServerResponse, event: { id: number; [field: string]: unknown }) =>
  reply.write(`id: ${event.id}\nevent: ${event.type}\ndata: ${JSON.stringify(event)}\n\n`)

export const refuse = (reply: ServerResponse, status: number, code: string, detail: object = {}) =>
  json(reply, status, { error: { code, message: `refused with ${code}`, detail } })

const notFound = (reply: ServerResponse) => refuse(reply, 404, 'CONTEXT_NOT_FOUND', { id: 'x' })
