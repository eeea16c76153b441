import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { ROUTES, type RouteName } from '@sandglass/contract'
import { expect, onTestFinished, test } from 'vitest'
import { type FetchLike, SandboxClient, SandglassError } from './index.ts'
import { nodeFetch, unixFetch } from './node/index.ts'
import { json, SESSION, startServer } from './transport/server.fixture.ts'

const KEY = 'key-for-tests-0000'
const connect = (baseUrl: string, fetch?: FetchLike) => new SandboxClient({ baseUrl, apiKey: KEY, fetch })

test('a create whose reply is lost is repeated under the same key and makes one session', async () => {
  await using server = await startServer((request, reply) => {
    if (server.requests.length === 1) request.socket.destroy()
    else json(reply, 201, SESSION)
  })
  const session = await connect(server.url).createSession({ ttlSeconds: 60, env: { A_B: '1' } })
  expect(session.id).toBe(SESSION.id)
  expect(session.info.labels).toEqual({ a_b: 'c' })
  expect(server.requests).toHaveLength(2)
  expect(server.requests[0]?.headers['idempotency-key']).toMatch(/^[0-9a-f]{32}$/)
  expect(server.requests[1]?.headers['idempotency-key']).toBe(server.requests[0]?.headers['idempotency-key'])
  expect(JSON.parse(server.requests[1]?.text ?? '')).toEqual({ ttl_seconds: 60, env: { A_B: '1' } })
  expect(server.requests[1]?.headers.authorization).toBe(`Bearer ${KEY}`)
})

test('ttlSeconds null is sent as null by create and renew', async () => {
  await using server = await startServer((_, reply) => json(reply, 200, SESSION))
  const session = await connect(server.url).createSession({ persist: true, ttlSeconds: null, onExpiry: 'pause' })
  await session.renew({ ttlSeconds: null })
  await session.renew()
  expect(server.requests.map(({ text }) => JSON.parse(text || '{}'))).toEqual([
    { persist: true, ttl_seconds: null, on_expiry: 'pause' },
    { ttl_seconds: null },
    {},
  ])
})

test('an exec whose reply is lost is not repeated', async () => {
  await using server = await startServer(request => void request.socket.destroy())
  const failure = await connect(server.url)
    .session('calm-otter')
    .exec('rm -rf build')
    .catch(e => e)
  expect(failure).toBeInstanceOf(SandglassError)
  expect(failure.code).toBe('DAEMON_UNREACHABLE')
  expect(server.requests).toHaveLength(1)
})

test('resize sends only the given limits, and updates session.info', async () => {
  await using server = await startServer((_, reply) => json(reply, 200, { ...SESSION, memory_mb: 2048 }))
  const session = connect(server.url).session('calm-otter')
  await session.resize({ memoryMb: 2048 })
  expect(session.info.memoryMb).toBe(2048)
  expect([server.requests[0]?.url, server.requests[0]?.text]).toEqual(['/v1/sessions/calm-otter/resize', '{"memory_mb":2048}'])
})

test('a request is sent three times if the daemon is shutting down, and once if the daemon refuses it', async () => {
  await using stopping = await startServer((_, reply) =>
    json(reply, 503, { error: { code: 'SHUTTING_DOWN', message: 'stopping' } }),
  )
  await expect(connect(stopping.url).getSession('calm-otter')).rejects.toMatchObject({ code: 'SHUTTING_DOWN' })
  expect(stopping.requests).toHaveLength(3)
  await using refusing = await startServer((_, reply) =>
    json(reply, 503, { error: { code: 'HOST_FULL', message: 'full', detail: { what: 'memory' } } }),
  )
  await expect(connect(refusing.url).createSession()).rejects.toMatchObject({ code: 'HOST_FULL', detail: { what: 'memory' } })
  expect(refusing.requests).toHaveLength(1)
})

test('errors are rebuilt with their detail, and any other reply is INTERNAL with its text', async () => {
  const error = {
    code: 'WRONG_STATE',
    message: 'cannot exec x: it is paused',
    detail: { id: 'x', state: 'paused', event: 'exec' },
    request_id: 'r1',
  }
  await using server = await startServer((request, reply) => {
    if (request.url?.endsWith('/exec')) json(reply, 409, { error })
    else if (request.url?.endsWith('/pause')) json(reply, 418, { error: { code: 'FROM_THE_FUTURE', message: 'odd' } })
    else reply.writeHead(400).end('<html>bad gateway</html>')
  })
  const session = connect(server.url).session('x')
  const known = await session.exec('true').catch(e => e)
  expect(known.is('WRONG_STATE') && known.detail.state).toBe('paused')
  expect([known.message, known.requestId, known.exitCode]).toEqual([error.message, 'r1', 5])
  expect(await session.pause().catch(e => [e.code, e.message])).toEqual(['INTERNAL', 'odd'])
  expect(await session.stop().catch(e => e.message)).toContain('bad gateway')
})

test('an unknown field is named as the caller wrote it', async () => {
  await using server = await startServer((_, reply) => {
    const issue = 'unknown field memory_m_b; did you mean memory_mb?'
    json(reply, 400, { error: { code: 'INVALID_REQUEST', message: issue, detail: { issue } } })
  })
  const options: object = { memoryMB: 512 }
  await expect(connect(server.url).createSession(options)).rejects.toMatchObject({
    code: 'INVALID_REQUEST',
    message: 'unknown field memoryMB; did you mean memoryMb?',
  })
})

test('an aborted call rejects with the reason it was given', async () => {
  await using server = await startServer(() => undefined)
  for (const fetch of [undefined, nodeFetch()]) {
    const controller = new AbortController()
    const call = connect(server.url, fetch).session('x').exec('sleep 100', { signal: controller.signal })
    await expect.poll(() => server.requests.length).toBeGreaterThan(0)
    controller.abort(new Error('no longer wanted'))
    await expect(call).rejects.toThrow('no longer wanted')
  }
  await expect(connect(server.url).getSession('x', { signal: AbortSignal.abort(new Error('before')) })).rejects.toThrow('before')
})

test('listSessions walks every page', async () => {
  await using server = await startServer((request, reply) => {
    const cursor = new URL(request.url ?? '', 'http://x').searchParams.get('cursor')
    json(reply, 200, {
      items: [{ ...SESSION, name: cursor ?? 'first' }],
      total: 3,
      limit: 1,
      offset: 0,
      next_cursor: { null: 'second', second: 'third' }[String(cursor)] ?? null,
    })
  })
  const found = await connect(server.url).listSessions({ all: true })
  expect(found.map(s => s.name)).toEqual(['first', 'second', 'third'])
  expect(server.requests[0]?.url).toBe('/v1/sessions?all=true&limit=200')
})

test('every call that the contract marks as creating sends an idempotency key', async () => {
  await using server = await startServer((_, reply) => json(reply, 201, SESSION))
  const client = connect(server.url)
  await client.createSession()
  await client.session('x').shells.create('other')
  await client.session('x').processes.start(['true'])
  await client.tasks.create({ prompt: 'hello' })
  const creating = (Object.keys(ROUTES) as RouteName[]).filter(name => 'creates' in ROUTES[name])
  expect(server.requests.map(r => r.headers['idempotency-key'] !== undefined)).toEqual(creating.map(() => true))
})

test('bodies stream both ways through a unix socket', async () => {
  const folder = await mkdtemp(join(tmpdir(), 'sdk-'))
  onTestFinished(() => rm(folder, { recursive: true }))
  const socket = join(folder, 'daemon.sock')
  await using server = await startServer(
    (request, reply) => {
      if (request.method === 'PUT') json(reply, 200, { ok: true, path: '/workspace/f', size: request.text.length })
      else reply.end(Buffer.alloc(3_000_000, 'x'))
    },
    undefined,
    socket,
  )
  const session = connect('http://sandglass', unixFetch(socket)).session('x')
  const body = new Blob(['a'.repeat(200_000), 'b']).stream()
  expect(await session.files.upload('f', body)).toMatchObject({ size: 200_001 })
  expect((await session.read('f')).length).toBe(3_000_000)
  await session.read('f', { signal: AbortSignal.timeout(5000) })
  expect(server.requests[0]?.headers['transfer-encoding']).toBe('chunked')
})

test('a body that could not be sent because no daemon was listening can be sent again in full', async () => {
  const folder = await mkdtemp(join(tmpdir(), 'sdk-'))
  onTestFinished(() => rm(folder, { recursive: true }))
  const socket = join(folder, 'daemon.sock')
  const session = connect('http://sandglass', unixFetch(socket)).session('x')
  const body = (async function* () {
    yield Buffer.from('all of ')
    yield Buffer.from('it')
  })()
  await expect(session.files.upload('f', body)).rejects.toMatchObject({ code: 'DAEMON_UNREACHABLE' })
  await using server = await startServer(
    (request, reply) => json(reply, 200, { ok: true, path: '/workspace/f', size: request.text.length }),
    undefined,
    socket,
  )
  expect(await session.files.upload('f', body)).toMatchObject({ size: 9 })
  expect(server.requests.map(({ text }) => text)).toEqual(['all of it'])
})

test('a download with offset and length sends a range', async () => {
  await using server = await startServer((_, reply) => void reply.writeHead(206).end('part'))
  await connect(server.url).session('x').files.download('f', { offset: 10, length: 4 })
  await connect(server.url).session('x').files.download('f', { offset: 3 })
  expect(server.requests.map(r => r.headers.range)).toEqual(['bytes=10-13', 'bytes=3-'])
})

test('the value of a secret is sent in the body, and listing secrets reads every page', async () => {
  const secret = { name: 'agent.claude', created_at: 't1', updated_at: 't2' }
  await using server = await startServer((request, reply) => {
    const url = new URL(request.url ?? '', 'http://x')
    if (request.method !== 'GET') json(reply, 200, request.method === 'PUT' ? secret : { ok: true })
    else
      json(reply, 200, {
        items: [secret],
        total: 2,
        limit: 200,
        offset: 0,
        next_cursor: url.searchParams.get('cursor') ? null : 'c',
      })
  })
  const { secrets } = connect(server.url)
  expect(await secrets.set('agent.claude', 'hush_hush')).toEqual({ name: 'agent.claude', createdAt: 't1', updatedAt: 't2' })
  expect((await secrets.list()).map(s => s.name)).toEqual(['agent.claude', 'agent.claude'])
  await secrets.remove('agent.claude')
  expect(server.requests.map(r => [r.method, r.url, r.text])).toEqual([
    ['PUT', '/v1/secrets/agent.claude', '{"value":"hush_hush"}'],
    ['GET', '/v1/secrets?limit=200', ''],
    ['GET', '/v1/secrets?limit=200&cursor=c', ''],
    ['DELETE', '/v1/secrets/agent.claude', ''],
  ])
})

test('revealEnv requests the values of the environment, and the names of variables are not converted', async () => {
  await using server = await startServer((_, reply) => json(reply, 200, { ...SESSION, env: { A_B: 'c' } }))
  const session = await connect(server.url).getSession('calm-otter', { revealEnv: true })
  expect(session.info.env).toEqual({ A_B: 'c' })
  expect(server.requests[0]?.url).toBe('/v1/sessions/calm-otter?reveal_env=true')
})
