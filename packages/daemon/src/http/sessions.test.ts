import { describe, expect, it } from 'vitest'
import { clocked } from '../testing/clocked.fixture.ts'
import { daemonFixture } from '../testing/daemon.fixture.ts'

describe('GET of a session', () => {
  it('shows its spec, state and times, by id and by name', async () => {
    const daemon = await daemonFixture()
    const spec = { name: 'demo', memory_mb: 300, ttl_seconds: 60, labels: { team: 'a' } }
    const { id } = await daemon.create({ ...spec, env: { STAGE: 'one' } })
    const byId = await daemon.call('GET', `/v1/sessions/${id}`)
    expect(byId.status).toBe(200)
    expect(byId.body).toMatchObject({
      ...spec,
      id,
      status: 'running',
      reason: 'started',
      image: 'host',
      env_names: ['STAGE'],
      created_at: expect.stringMatching(/Z$/),
      expires_at: expect.stringMatching(/Z$/),
    })
    expect(byId.body).not.toHaveProperty('env')
    expect((await daemon.call('GET', '/v1/sessions/demo')).body).toEqual(byId.body)
  })
})

describe('GET of all sessions', () => {
  it('filters by state, name and label, and returns pages with a cursor and a total', async () => {
    const { create, call } = await daemonFixture()
    for (const name of ['a', 'b', 'c']) await create({ name, start: false, labels: { team: name === 'c' ? 'other' : 'one' } })
    await call('DELETE', '/v1/sessions/b')
    type Page = { items: { name: string }[]; total: number; next_cursor: string | null }
    const list = async (query: string) => (await call('GET', `/v1/sessions?${query}`)).body as Page
    const names = async (query: string) => (await list(query)).items.map(({ name }) => name).sort()
    expect(await names('')).toEqual(['a', 'c'])
    expect(await names('all=true')).toEqual(['a', 'b', 'c'])
    expect(await names('status=terminated')).toEqual(['b'])
    expect(await names('name=a')).toEqual(['a'])
    expect(await names('label=team=one')).toEqual(['a'])
    const first = await list('limit=1')
    const second = await list(`limit=1&cursor=${first.next_cursor}`)
    expect([first.total, second.total, second.next_cursor]).toEqual([2, 2, null])
    expect([...first.items, ...second.items].map(({ name }) => name).sort()).toEqual(['a', 'c'])
  })
})

describe('a session whose request names no limits', () => {
  it('gets pids_limit and readonly_rootfs of the configuration', async () => {
    const { create, context } = await daemonFixture({
      flags: { 'defaults-pids-limit': ['77'], 'defaults-readonly-rootfs': ['false'] },
    })
    const { id } = await create()
    expect(context.live.get(id)?.record).toMatchObject({ pids_limit: 77, readonly_rootfs: false })
  })
})

describe('the lease of a session', () => {
  it.each([
    ['exec', 'POST', 'exec', { cmd: 'true' }],
    ['fs/read', 'GET', 'fs/read?path=a.txt', undefined],
    ['fs/write', 'POST', 'fs/write', { path: 'b.txt', text: 'b' }],
    ['PUT files', 'PUT', 'files?path=b.txt', 'b'],
    ['GET files', 'GET', 'files?path=a.txt', undefined],
  ])('is extended by %s', async (_, method, path, body) => {
    const { daemon, pass } = await clocked()
    const { id } = await daemon.create({ ttl_seconds: 60 })
    await daemon.call('POST', `/v1/sessions/${id}/fs/write`, { path: 'a.txt', text: 'a' })
    await pass(50)
    expect((await daemon.call(method, `/v1/sessions/${id}/${path}`, body)).status).toBe(200)
    await pass(50)
    expect((await daemon.call('GET', `/v1/sessions/${id}`)).body).toMatchObject({ status: 'running' })
    await pass(10)
    expect((await daemon.call('GET', `/v1/sessions/${id}`)).body).toMatchObject({ status: 'timeout', reason: 'idle_ttl' })
  })
})
