import { SandglassError } from '@sandglass/contract'
import { describe, expect, it } from 'vitest'
import type { Backend } from '../../backends/backend.ts'
import { clocked } from '../../testing/clocked.fixture.ts'
import { daemonFixture, plainChild, type TestDaemon, temporaryFolder, until } from '../../testing/daemon.fixture.ts'
import { sweep } from './reaper.ts'

const DAY = 86_400
const get = async (daemon: TestDaemon, id: string) => (await daemon.call('GET', `/v1/sessions/${id}`)).body as object
const post = async (daemon: TestDaemon, id: string, verb: string, body?: object) =>
  daemon.call('POST', `/v1/sessions/${id}/${verb}`, body)
const output = async (daemon: TestDaemon, id: string, cmd: string) =>
  ((await post(daemon, id, 'exec', { cmd })).body as { output: string }).output
const writeFile = (daemon: TestDaemon, id: string) => output(daemon, id, 'echo kept > note; true')
/** What the file of the session holds once it runs again. */
const readAfter = async (daemon: TestDaemon, id: string, verb: 'start' | 'resume') => {
  expect((await post(daemon, id, verb)).body).toMatchObject({ status: 'running' })
  return output(daemon, id, 'cat note')
}

describe('when its ttl ends', () => {
  it.each([
    [{}, 'end'],
    [{ persist: true }, 'stop'],
    [{ mode: 'persistent' }, 'stop'],
    [{ on_expiry: 'stop' }, 'stop'],
    [{ on_expiry: 'pause' }, 'pause'],
    [{ persist: true, on_expiry: 'end' }, 'end'],
    [{ persist: true, on_expiry: 'pause' }, 'pause'],
  ] as const)('a session made with %o does: %s', async (spec, expiry) => {
    const { daemon, pass } = await clocked()
    const { id } = await daemon.create({ ...spec, ttl_seconds: 60 })
    expect(await get(daemon, id)).toMatchObject({
      on_expiry: expiry,
      expires_at: '2030-01-01T00:01:00.000Z',
      kept_until: null,
    })
    await writeFile(daemon, id)
    await pass(60)
    const status = { end: 'timeout', stop: 'stopped', pause: 'paused' }[expiry]
    expect(await get(daemon, id)).toMatchObject({ status, reason: 'idle_ttl', expires_at: null })
    const [backend] = daemon.context.backends.values()
    expect(await backend?.sessionIds()).toEqual(expiry === 'end' ? [] : [id])
    if (expiry !== 'end') expect(await readAfter(daemon, id, expiry === 'stop' ? 'start' : 'resume')).toBe('kept\n')
  })

  it('expiry_action says whether the ttl or the hard end comes first', async () => {
    const { daemon, pass } = await clocked()
    const { id } = await daemon.create({ ttl_seconds: 60, timeout_sec: 90, on_expiry: 'stop' })
    expect(await get(daemon, id)).toMatchObject({ expires_at: '2030-01-01T00:01:00.000Z', expiry_action: 'stop' })
    await pass(50)
    await post(daemon, id, 'renew')
    expect(await get(daemon, id)).toMatchObject({ expires_at: '2030-01-01T00:01:30.000Z', expiry_action: 'end' })
    await post(daemon, id, 'stop')
    expect(await get(daemon, id)).toMatchObject({ expires_at: null, expiry_action: null })
  })

  it.each([
    ['end', 'timeout'],
    ['stop', 'stopped'],
  ])('a session that was paused by request and has on_expiry %s becomes %s', async (on_expiry, status) => {
    const { daemon, pass } = await clocked()
    const { id } = await daemon.create({ ttl_seconds: 60, on_expiry })
    await writeFile(daemon, id)
    await post(daemon, id, 'pause')
    await pass(59)
    expect(await get(daemon, id)).toMatchObject({ status: 'paused' })
    await pass(1)
    expect(await get(daemon, id)).toMatchObject({ status, reason: 'idle_ttl' })
    if (status === 'stopped') expect(await readAfter(daemon, id, 'start')).toBe('kept\n')
  })

  it.each(['requested', 'idle_ttl'])('a session with on_expiry pause that is already paused (%s) stays paused', async reason => {
    const { daemon, pass } = await clocked()
    const { id } = await daemon.create({ ttl_seconds: 60, on_expiry: 'pause' })
    if (reason === 'requested') await post(daemon, id, 'pause')
    await pass(60)
    await pass(30 * DAY)
    expect(await get(daemon, id)).toMatchObject({ status: 'paused', reason, expires_at: null, kept_until: null })
  })

  it.each([
    ['start', 'stop'],
    ['resume', 'pause'],
  ] as const)('%s gives a session a fresh ttl', async (verb, on_expiry) => {
    const { daemon, pass } = await clocked()
    const { id } = await daemon.create({ ttl_seconds: 60, on_expiry })
    await pass(60)
    await pass(40)
    expect((await post(daemon, id, verb)).body).toMatchObject({ status: 'running', expires_at: '2030-01-01T00:02:40.000Z' })
  })

  it('a session without a ttl never expires, and its last activity is still stored', async () => {
    const { daemon, pass } = await clocked()
    const { id } = await daemon.create({ persist: true, ttl_seconds: null })
    await pass(30 * DAY)
    await output(daemon, id, 'cd /tmp')
    await sweep(daemon.context)
    expect(await get(daemon, id)).toMatchObject({ status: 'running', ttl_seconds: null, expires_at: null })
    const stored = await daemon.context.store.selectFrom('sessions').selectAll().where('id', '=', id).executeTakeFirstOrThrow()
    expect(stored).toMatchObject({ last_activity_at: Date.parse('2030-01-31T00:00:00Z'), cwd: '/tmp', expires_at: null })
  })

  it('a machine that cannot be stopped does not keep other sessions from expiring', async () => {
    const { daemon, pass } = await clocked()
    const stuck = await daemon.create({ ttl_seconds: 60, on_expiry: 'pause' })
    const others = await Promise.all(Array.from({ length: 9 }, () => daemon.create({ ttl_seconds: 60, start: false })))
    await Promise.all(others.map(({ id }) => post(daemon, id, 'start')))
    const machine = daemon.context.live.get(stuck.id)?.machine
    if (!machine) throw new Error('it does not run')
    const pause = machine.pause?.bind(machine)
    machine.pause = () => Promise.reject(new SandglassError('PAUSE_FAILED', { seconds: 1 }))
    await pass(60)
    expect(await get(daemon, stuck.id)).toMatchObject({ status: 'running' })
    for (const { id } of others) expect(await get(daemon, id)).toMatchObject({ status: 'timeout' })
    if (pause) machine.pause = pause
    await pass(1)
    expect(await get(daemon, stuck.id)).toMatchObject({ status: 'paused', reason: 'idle_ttl' })
  })
})

it('a session whose backend cannot report its machine is stopped later, and does not fail', async () => {
  const [dataDir, machines] = [await temporaryFolder(), await temporaryFolder()]
  const first = await clocked({ dataDir, backends: () => [plainChild(machines)] })
  const { id } = await first.daemon.create({ persist: true, ttl_seconds: 60 })
  await writeFile(first.daemon, id)
  await first.daemon.close()
  const silent = plainChild(machines)
  const recover = silent.recover.bind(silent)
  silent.recover = () => Promise.reject(new Error('the engine does not answer'))
  const second = await clocked({ dataDir, backends: () => [silent] })
  await second.pass(60)
  expect(await get(second.daemon, id)).toMatchObject({ status: 'running' })
  silent.recover = recover
  await until(async () => {
    await second.pass(0)
    return ((await get(second.daemon, id)) as { status: string }).status === 'stopped'
  }, 20_000)
  expect(await readAfter(second.daemon, id, 'start')).toBe('kept\n')
})

describe('a stopped session', () => {
  it.each([
    ['stopped while it ran', 'stop', {}],
    ['stopped while it was paused', 'pause', {}],
    ['created without start', 'create', { start: false }],
    ['stopped by its expiry', 'expire', { on_expiry: 'stop' }],
  ])('that was %s outlives its ttl and is kept for the retention', async (_, how, spec) => {
    const { daemon, pass } = await clocked()
    const { id } = await daemon.create({ ttl_seconds: 4, ...spec })
    if (how !== 'create') await writeFile(daemon, id)
    if (how === 'pause') await post(daemon, id, 'pause')
    if (how === 'stop' || how === 'pause') await post(daemon, id, 'stop')
    if (how === 'expire') await pass(4)
    const [day, time] = ['2030-01-08', how === 'expire' ? '00:00:04' : '00:00:00']
    expect(await get(daemon, id)).toMatchObject({
      status: 'stopped',
      expires_at: null,
      kept_until: `${day}T${time}.000Z`,
    })
    await pass(7 * DAY - 1)
    expect(await get(daemon, id)).toMatchObject({ status: 'stopped' })
    if (how === 'create') expect((await post(daemon, id, 'start')).status).toBe(200)
    else expect(await readAfter(daemon, id, 'start')).toBe('kept\n')
    expect(await get(daemon, id)).toMatchObject({ kept_until: null })
  })

  it('that is ephemeral ends with its retention, and its files go', async () => {
    const { daemon, pass } = await clocked({ flags: { 'stopped-retention-seconds': ['100'] } })
    const { id } = await daemon.create()
    await post(daemon, id, 'stop')
    await pass(99)
    expect(await get(daemon, id)).toMatchObject({ status: 'stopped' })
    await pass(1)
    expect(await get(daemon, id)).toMatchObject({ status: 'timeout', reason: 'retention_ended', kept_until: null })
    const [backend] = daemon.context.backends.values()
    expect(await backend?.sessionIds()).toEqual([])
  })

  it('that is persistent stays until it is removed', async () => {
    const { daemon, pass } = await clocked()
    const { id } = await daemon.create({ persist: true, ttl_seconds: 60 })
    await writeFile(daemon, id)
    await post(daemon, id, 'stop')
    expect(await get(daemon, id)).toMatchObject({ status: 'stopped', expires_at: null, kept_until: null })
    await pass(400 * DAY)
    expect(await readAfter(daemon, id, 'start')).toBe('kept\n')
  })
})

describe('the hard end', () => {
  it.each([
    ['running', {}, []],
    ['running', { persist: true, ttl_seconds: null }, []],
    ['paused', { on_expiry: 'pause' }, ['pause']],
    ['stopped', {}, ['stop']],
    ['stopped', { persist: true }, ['stop']],
  ] as const)('ends a %s session that was made with %o', async (status, spec, verbs) => {
    const { daemon, pass } = await clocked()
    const { id } = await daemon.create({ ttl_seconds: DAY, ...spec, timeout_sec: 100 })
    for (const verb of verbs) await post(daemon, id, verb)
    const end = '2030-01-01T00:01:40.000Z'
    expect(await get(daemon, id)).toMatchObject({
      status,
      expires_at: status === 'stopped' ? null : end,
      kept_until: status === 'stopped' ? end : null,
    })
    await pass(99)
    expect(await get(daemon, id)).toMatchObject({ status })
    await pass(1)
    expect(await get(daemon, id)).toMatchObject({ status: 'timeout', reason: 'hard_timeout' })
  })
})

describe('renew', () => {
  it('accepts null for a persistent session, and a number again', async () => {
    const { daemon, pass } = await clocked()
    const { id } = await daemon.create({ persist: true, ttl_seconds: 60 })
    expect((await post(daemon, id, 'renew', { ttl_seconds: null })).body).toMatchObject({ ttl_seconds: null, expires_at: null })
    await pass(DAY)
    expect((await post(daemon, id, 'renew')).body).toMatchObject({ status: 'running', ttl_seconds: null, expires_at: null })
    expect((await post(daemon, id, 'renew', { ttl_seconds: 60 })).body).toMatchObject({ expires_at: '2030-01-02T00:01:00.000Z' })
  })

  it('starts the retention of a stopped session again', async () => {
    const { daemon, pass } = await clocked()
    const { id } = await daemon.create({ start: false, ttl_seconds: 60 })
    await pass(DAY)
    expect((await post(daemon, id, 'renew')).body).toMatchObject({ expires_at: null, kept_until: '2030-01-09T00:00:00.000Z' })
  })
})

it('an ephemeral session cannot go without a ttl', async () => {
  const { daemon } = await clocked()
  const refused = {
    status: 400,
    body: { error: { message: expect.stringContaining('only a persistent session can have none') } },
  }
  expect(await daemon.call('POST', '/v1/sessions', { ttl_seconds: null })).toMatchObject(refused)
  const { id } = await daemon.create()
  expect(await post(daemon, id, 'renew', { ttl_seconds: null })).toMatchObject(refused)
})

it('on_expiry pause is refused where no machine can be paused, before there is a session', async () => {
  const daemon = await daemonFixture({
    backends: folder => {
      const backend: Backend = plainChild(folder)
      backend.checkRequirements = async ({ canPause }) => {
        if (canPause) throw new SandglassError('UNSUPPORTED', { what: 'on_expiry pause' })
      }
      return [backend]
    },
  })
  for (const start of [true, false]) {
    const reply = await daemon.call('POST', '/v1/sessions', { on_expiry: 'pause', start })
    expect(reply.body).toMatchObject({ error: { code: 'UNSUPPORTED' } })
  }
  expect((await daemon.call('GET', '/v1/sessions?all=true')).body).toMatchObject({ items: [] })
})

it('a failed session keeps its files: an ephemeral one for a week, a persistent one until it is removed', async () => {
  const { daemon, pass } = await clocked()
  const ephemeral = await daemon.create()
  const persistent = await daemon.create({ persist: true })
  for (const { id } of [ephemeral, persistent]) {
    await writeFile(daemon, id)
    await daemon.context.live.get(id)?.machine.stop()
    await until(async () => ((await get(daemon, id)) as { status: string }).status === 'failed')
  }
  expect(await get(daemon, ephemeral.id)).toMatchObject({ kept_until: '2030-01-08T00:00:00.000Z' })
  expect(await get(daemon, persistent.id)).toMatchObject({ kept_until: null, delete_at: null })
  await pass(8 * DAY)
  await sweep(daemon.context)
  expect((await daemon.call('GET', `/v1/sessions/${ephemeral.id}`)).status).toBe(404)
  expect(await readAfter(daemon, persistent.id, 'start')).toBe('kept\n')
})
