import type { ServerResponse } from 'node:http'
import { expect, test } from 'vitest'
import { SandboxClient } from './index.ts'
import { json, SESSION, startServer } from './transport/server.fixture.ts'

const connect = (baseUrl: string) => new SandboxClient({ baseUrl, apiKey: 'key-for-tests-0000' })
const ENTRY = { id: 7, at: 't', type: 'request', decision: 'blocked', bytes_sent: 12, duration_ms: 3, tags: [] }
const APPROVAL = { id: 'appr_0123456789abcdef', session_name: 'box', status: 'pending', answered_at: null }
const POLICY = { domains: ['example.com'], url_prefixes: [{ host: 'a.example.com', path: '/x' }], pass_through: [] }

function events(reply: ServerResponse, ...items: [type: string, data: unknown, id?: number][]): void {
  reply.writeHead(200, { 'content-type': 'text/event-stream' })
  for (const [type, data, id] of items)
    reply.write(`${id === undefined ? '' : `id: ${id}\n`}event: ${type}\ndata: ${JSON.stringify(data)}\n\n`)
}

test('policies are stored, read, checked and removed under the names of the SDK', async () => {
  const stored = { name: 'mine', policy: POLICY, built_in: false, created_at: 't1', updated_at: 't2' }
  await using server = await startServer((request, reply) => {
    if (request.url?.endsWith('/check')) json(reply, 200, { allowed: false, rule: null, reason: 'no rule' })
    else if (request.url?.startsWith('/v1/policies?')) json(reply, 200, { items: [stored], next_cursor: null })
    else json(reply, 200, request.method === 'DELETE' ? { ok: true } : stored)
  })
  const { policies } = connect(server.url)
  const policy = { domains: ['example.com'], urlPrefixes: [{ host: 'a.example.com', path: '/x' }], passThrough: [] }
  expect(await policies.set('mine', policy)).toEqual({ name: 'mine', policy, builtIn: false, createdAt: 't1', updatedAt: 't2' })
  expect((await policies.get('mine')).policy.urlPrefixes).toEqual(policy.urlPrefixes)
  expect((await policies.list()).map(({ name }) => name)).toEqual(['mine'])
  expect(await policies.check('mine', 'https://example.com/', { method: 'POST' })).toMatchObject({ allowed: false })
  await policies.remove('mine')
  expect(server.requests.map(r => [r.method, r.url, r.text])).toEqual([
    ['PUT', '/v1/policies/mine', JSON.stringify(POLICY)],
    ['GET', '/v1/policies/mine', ''],
    ['GET', '/v1/policies?limit=200', ''],
    ['POST', '/v1/policies/mine/check', '{"url":"https://example.com/","method":"POST"}'],
    ['DELETE', '/v1/policies/mine', ''],
  ])
})

test('a secret is stored with its settings, and rotated without them', async () => {
  await using server = await startServer((_, reply) => json(reply, 200, { name: 'token', allow_foreign_credentials: true }))
  const { secrets } = connect(server.url)
  const settings = { scopes: ['api.example.com'], env: 'TOKEN', allowForeignCredentials: true }
  expect(await secrets.set('token', 'v', settings)).toMatchObject({ allowForeignCredentials: true })
  await secrets.rotate('token', 'w')
  expect(server.requests.map(r => [r.method, r.url, JSON.parse(r.text)])).toEqual([
    ['PUT', '/v1/secrets/token', { value: 'v', scopes: ['api.example.com'], env: 'TOKEN', allow_foreign_credentials: true }],
    ['POST', '/v1/secrets/token/rotate', { value: 'w' }],
  ])
})

test('approvals are listed by status and answered with a scope', async () => {
  await using server = await startServer((request, reply) =>
    json(reply, 200, request.method === 'GET' ? { items: [APPROVAL], next_cursor: null } : APPROVAL),
  )
  const { approvals } = connect(server.url)
  expect(await approvals.list({ status: 'pending' })).toMatchObject([{ sessionName: 'box' }])
  await approvals.allow(APPROVAL.id, { scope: 'policy', policy: 'mine' })
  await approvals.deny(APPROVAL.id)
  expect(server.requests.map(r => [r.url, r.text])).toEqual([
    ['/v1/approvals?status=pending&limit=200', ''],
    [`/v1/approvals/${APPROVAL.id}/allow`, '{"scope":"policy","policy":"mine"}'],
    [`/v1/approvals/${APPROVAL.id}/deny`, '{}'],
  ])
})

test('approvals are followed across a lost connection until the caller leaves', async () => {
  await using server = await startServer((_, reply) => {
    events(reply, ['approval', { ...APPROVAL, requests: server.requests.length }])
    if (server.requests.length === 1) reply.write('', () => reply.destroy())
  })
  const seen: number[] = []
  for await (const { requests } of connect(server.url).approvals.follow()) {
    seen.push(requests)
    if (requests === 2) break
  }
  expect(seen).toEqual([1, 2])
})

test('a network log that is not followed ends with its last entry, and a cut one is an error', async () => {
  await using server = await startServer((_, reply) => {
    events(reply, ['entry', ENTRY, 7])
    if (server.requests.length === 1) reply.end()
    else reply.write('', () => reply.destroy())
  })
  const { network } = connect(server.url).session('box')
  const read = async () => {
    const found = []
    for await (const entry of network.log({ blocked: true, tail: 5 })) found.push(entry)
    return found
  }
  expect(await read()).toMatchObject([{ id: 7, bytesSent: 12, durationMs: 3 }])
  expect(server.requests[0]?.url).toBe('/v1/sessions/box/network?blocked=true&tail=5')
  await expect(read()).rejects.toMatchObject({ code: 'DAEMON_UNREACHABLE' })
})

test('a followed network log goes on after the last entry when the connection is lost, and ends with the session', async () => {
  await using server = await startServer((_, reply) => {
    const id = server.requests.length
    events(reply, ['entry', { ...ENTRY, id }, id])
    if (id === 1) reply.write('', () => reply.destroy())
    else reply.end('event: end\ndata: {}\n\n')
  })
  const ids: number[] = []
  for await (const { id } of connect(server.url).session('box').network.log({ follow: true })) ids.push(id)
  expect(ids).toEqual([1, 2])
  expect(server.requests.map(r => r.headers['last-event-id'])).toEqual([undefined, '1'])
})

test('an error in a network log is thrown with its code', async () => {
  await using server = await startServer((_, reply) => {
    events(reply, ['error', { code: 'SLOW_READER', message: 'too slow' }])
    reply.end()
  })
  const log = connect(server.url).session('box').network.log()
  await expect(log.next()).rejects.toMatchObject({ code: 'SLOW_READER' })
})

test('a change of policies updates session.info, and start sends only what is given', async () => {
  await using server = await startServer((_, reply) => json(reply, 200, { ...SESSION, policies: ['npm'], policy_mode: 'ask' }))
  const session = connect(server.url).session('box')
  await session.network.setPolicies({ policies: ['npm'], policyMode: 'ask' })
  expect([session.info.policies, session.info.policyMode]).toEqual([['npm'], 'ask'])
  await session.network.setPolicies({ policyMode: null })
  await session.start({ policies: ['npm'], secrets: ['token'], policyMode: 'observe', network: 'allowlist' })
  await session.start()
  expect(server.requests.map(r => [r.method, r.url, JSON.parse(r.text)])).toEqual([
    ['PUT', '/v1/sessions/box/policies', { policies: ['npm'], policy_mode: 'ask' }],
    ['PUT', '/v1/sessions/box/policies', { policy_mode: null }],
    ['POST', '/v1/sessions/box/start', { policies: ['npm'], secrets: ['token'], policy_mode: 'observe', network: 'allowlist' }],
    ['POST', '/v1/sessions/box/start', {}],
  ])
})

test('the log as text, the suggested policy and the certificate authority are read as they are', async () => {
  await using server = await startServer((request, reply) => {
    if (request.url?.endsWith('/file')) reply.end('ALLOWED GET https://example.com/ -> 200\n')
    else if (request.url?.endsWith('/suggestion')) json(reply, 200, POLICY)
    else json(reply, 200, { certificate: request.method, expires_at: 't' })
  })
  const client = connect(server.url)
  expect(await client.session('box').network.logText()).toBe('ALLOWED GET https://example.com/ -> 200\n')
  expect((await client.session('box').network.suggestPolicy()).urlPrefixes).toEqual(POLICY.url_prefixes)
  expect([await client.ca.get(), await client.ca.rotate()]).toEqual([
    { certificate: 'GET', expiresAt: 't' },
    { certificate: 'POST', expiresAt: 't' },
  ])
})
