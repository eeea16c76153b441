import { expect, it } from 'vitest'
import { daemonFixture } from '../../testing/daemon.fixture.ts'

it.each([
  ['process', 'processes', { argv: ['sleep', '5'] }],
  ['shell', 'shells', { name: 'other' }],
])('the key of a %s belongs to its session, not to the next session of the same name', async (_, path, body) => {
  const daemon = await daemonFixture()
  const start = () => daemon.call('POST', `/v1/sessions/box/${path}`, body, { 'idempotency-key': 'p' })
  const count = async () => ((await daemon.call('GET', `/v1/sessions/box/${path}`)).body as { items: unknown[] }).items.length
  await daemon.create({ name: 'box' })
  const [first, again] = [await start(), await start()]
  expect([first.status, again.text]).toEqual([201, first.text])
  await daemon.call('DELETE', '/v1/sessions/box')
  await daemon.create({ name: 'box' })
  const before = await count()
  expect((await start()).status).toBe(201)
  expect(await count()).toBe(before + 1)
})

it('a key means the same whether the session is addressed by id or by name', async () => {
  const daemon = await daemonFixture()
  const { id } = await daemon.create({ name: 'box' })
  const start = (ref: string) =>
    daemon.call('POST', `/v1/sessions/${ref}/processes`, { argv: ['sleep', '5'] }, { 'idempotency-key': 'p' })
  const [byName, byId] = [await start('box'), await start(id)]
  expect([byName.status, byId.text]).toEqual([201, byName.text])
})

it('a key is for one route', async () => {
  const daemon = await daemonFixture()
  await daemon.create({ name: 'box' })
  const key = { 'idempotency-key': 'p' }
  expect((await daemon.call('POST', '/v1/sessions/box/processes', { argv: ['sleep', '5'] }, key)).status).toBe(201)
  expect((await daemon.call('POST', '/v1/sessions/box/shells', { name: 'other' }, key)).status).toBe(201)
})

it.each([
  ['process', 'processes', { argv: ['sleep', '60'] }],
  ['shell', 'shells', { name: 'other' }],
])('the key of a %s creates it again after the session was stopped, and never while it is stopped', async (_, path, body) => {
  const daemon = await daemonFixture()
  await daemon.create({ name: 'box' })
  const start = () => daemon.call('POST', `/v1/sessions/box/${path}`, body, { 'idempotency-key': 'p' })
  const first = await start()
  expect((await start()).body).toEqual(first.body)
  await daemon.call('POST', '/v1/sessions/box/stop')
  expect((await start()).body).toMatchObject({ error: { code: 'WRONG_STATE' } })
  await daemon.call('POST', '/v1/sessions/box/start')
  const { pid } = (await start()).body as { pid: number }
  const { items } = (await daemon.call('GET', `/v1/sessions/box/${path}`)).body as { items: { pid: number }[] }
  expect(items.map(item => item.pid)).toContain(pid)
})
