import { describe, expect, it } from 'vitest'
import { clocked } from '../../testing/clocked.fixture.ts'
import { type TestDaemon, until } from '../../testing/daemon.fixture.ts'
import { flushLeases } from './lease.ts'
import { sweep } from './reaper.ts'

type Shown = { status: string; reason: string; expires_at: string; last_activity_at: string; ttl_seconds: number }
const get = async (daemon: TestDaemon, id: string) => (await daemon.call('GET', `/v1/sessions/${id}`)).body as Shown
const stored = (daemon: TestDaemon, id: string) =>
  daemon.context.store.selectFrom('sessions').selectAll().where('id', '=', id).executeTakeFirstOrThrow()
const exec = (daemon: TestDaemon, id: string, cmd: string) => daemon.call('POST', `/v1/sessions/${id}/exec`, { cmd })

describe('a lease', () => {
  it('ends an idle session at its own ttl, and not before', async () => {
    const { daemon, pass } = await clocked()
    const short = await daemon.create({ ttl_seconds: 60 })
    const usual = await daemon.create()
    await pass(59)
    expect((await get(daemon, short.id)).status).toBe('running')
    await pass(1)
    expect(await get(daemon, short.id)).toMatchObject({ status: 'timeout', reason: 'idle_ttl', expires_at: null })
    expect(await get(daemon, usual.id)).toMatchObject({ status: 'running', ttl_seconds: 1800 })
    const [backend] = daemon.context.backends.values()
    expect(await backend?.sessionIds()).toEqual([usual.id])
  })

  it('has session_ttl_seconds of the configuration if the request names no ttl', async () => {
    const { daemon, pass } = await clocked({ flags: { 'session-ttl-seconds': ['90'] } })
    const { id } = await daemon.create()
    await pass(89)
    expect(await get(daemon, id)).toMatchObject({ status: 'running', ttl_seconds: 90 })
    await pass(1)
    expect(await get(daemon, id)).toMatchObject({ status: 'timeout', reason: 'idle_ttl' })
  })

  it('moves forward by the session’s own ttl with each activity', async () => {
    const { daemon, pass } = await clocked()
    const { id } = await daemon.create({ ttl_seconds: 60 })
    for (let i = 0; i < 4; i++) {
      await pass(50)
      expect((await exec(daemon, id, 'true')).status).toBe(200)
    }
    expect(await get(daemon, id)).toMatchObject({
      status: 'running',
      expires_at: '2030-01-01T00:04:20.000Z',
      last_activity_at: '2030-01-01T00:03:20.000Z',
    })
  })

  it('is not renewed by reading about the session', async () => {
    const { daemon, pass } = await clocked()
    const { id, expires_at } = await daemon.create({ ttl_seconds: 60 })
    await pass(30)
    await daemon.call('GET', '/v1/sessions')
    expect((await daemon.call('GET', `/v1/sessions/${id}/stats`)).status).toBe(200)
    expect((await daemon.call('GET', `/v1/sessions/${id}/process-table`)).status).toBe(200)
    expect((await get(daemon, id)).expires_at).toBe(expires_at)
  })

  it('is held by a command that runs longer than the ttl', async () => {
    const { daemon, pass } = await clocked()
    const { id } = await daemon.create({ ttl_seconds: 1 })
    const gate = daemon.call('POST', `/v1/sessions/${id}/exec`, { cmd: 'mkfifo gate; read line < gate; echo $line', shell: 'b' })
    await until(() => daemon.context.live.get(id)?.holds === 1)
    await pass(100)
    await pass(100)
    expect((await get(daemon, id)).status).toBe('running')
    await until(async () =>
      (await daemon.call('POST', `/v1/sessions/${id}/exec`, { cmd: 'test -p gate && echo go > gate', shell: 'c' })).text.includes(
        '"exit_code":0',
      ),
    )
    expect((await gate).body).toMatchObject({ output: 'go\n' })
    await pass(2)
    expect((await get(daemon, id)).status).toBe('timeout')
  })

  it('is held by an open stream', async () => {
    const { daemon, pass } = await clocked()
    const { id } = await daemon.create({ ttl_seconds: 1 })
    const leave = new AbortController()
    const watching = await daemon.fetch(`/v1/sessions/${id}/fs/watch`, { signal: leave.signal })
    expect(watching.status).toBe(200)
    await pass(100)
    expect((await get(daemon, id)).status).toBe('running')
    leave.abort()
    await until(() => daemon.context.live.get(id)?.holds === 0)
    await pass(2)
    expect((await get(daemon, id)).status).toBe('timeout')
  })

  it('is held by a detached process, and runs out after its end', async () => {
    const { daemon, pass } = await clocked()
    const { id } = await daemon.create({ ttl_seconds: 5 })
    const start = { argv: ['sleep', '1000'], detach: true }
    const { pid } = (await daemon.call('POST', `/v1/sessions/${id}/processes`, start)).body as { pid: number }
    await pass(100)
    await pass(100)
    expect(await get(daemon, id)).toMatchObject({ status: 'running', expires_at: '2030-01-01T00:03:25.000Z' })
    expect(daemon.context.live.get(id)?.holds).toBe(0)
    await daemon.call('POST', `/v1/sessions/${id}/processes/${pid}/signal`, { signal: 'SIGKILL' })
    await until(async () => {
      const { body } = await daemon.call('GET', `/v1/sessions/${id}/processes/${pid}`)
      return (body as { running: boolean }).running === false
    })
    // The clock of the runner is the real one: the process ended a moment ago, and the ttl counts from there.
    await pass(6)
    expect((await get(daemon, id)).status).toBe('running')
    await until(async () => {
      await pass(6)
      return (await get(daemon, id)).status === 'timeout'
    }, 20_000)
  })

  it('is not held by a process that is not detached', async () => {
    const { daemon, pass } = await clocked()
    const { id } = await daemon.create({ ttl_seconds: 1 })
    await daemon.call('POST', `/v1/sessions/${id}/processes`, { argv: ['sleep', '1000'] })
    await pass(2)
    expect((await get(daemon, id)).status).toBe('timeout')
  })

  it('of a session with a detached process still ends at the hard end', async () => {
    const { daemon, pass } = await clocked()
    const { id } = await daemon.create({ ttl_seconds: 60, timeout_sec: 100 })
    await daemon.call('POST', `/v1/sessions/${id}/processes`, { argv: ['sleep', '1000'], detach: true })
    await pass(99)
    expect((await get(daemon, id)).status).toBe('running')
    await pass(1)
    expect(await get(daemon, id)).toMatchObject({ status: 'timeout', reason: 'hard_timeout' })
  })

  it('never outlasts the hard end, whatever runs', async () => {
    const { daemon, pass } = await clocked()
    const { id } = await daemon.create({ ttl_seconds: 60, timeout_sec: 100 })
    const running = exec(daemon, id, 'sleep 30')
    await until(() => daemon.context.live.get(id)?.holds === 1)
    await pass(99)
    expect(await get(daemon, id)).toMatchObject({ status: 'running', expires_at: '2030-01-01T00:01:40.000Z' })
    await pass(1)
    expect(await get(daemon, id)).toMatchObject({ status: 'timeout', reason: 'hard_timeout' })
    expect((await running).status).toBe(502)
  })

  it('is renewed on request, with another ttl if one is given', async () => {
    const { daemon, pass } = await clocked()
    const { id } = await daemon.create({ ttl_seconds: 60 })
    await pass(30)
    expect((await daemon.call('POST', `/v1/sessions/${id}/renew`)).body).toMatchObject({ expires_at: '2030-01-01T00:01:30.000Z' })
    expect((await daemon.call('POST', `/v1/sessions/${id}/renew`, { ttl_seconds: 600 })).body).toMatchObject({
      expires_at: '2030-01-01T00:10:30.000Z',
      ttl_seconds: 600,
    })
    await exec(daemon, id, 'true')
    expect((await get(daemon, id)).expires_at).toBe('2030-01-01T00:10:30.000Z')
  })

  it('causes no write per command, and is written within a second', async () => {
    const { daemon, pass } = await clocked()
    const { id } = await daemon.create()
    const isWritten = async () => {
      const { expires_at } = await get(daemon, id)
      return new Date((await stored(daemon, id)).expires_at ?? 0).toISOString() === expires_at
    }
    // The write of each second may come right after a command, and does not come after all of them.
    await until(async () => {
      await pass(100)
      await exec(daemon, id, 'cd /')
      return !(await isWritten())
    })
    await until(isWritten)
    expect((await stored(daemon, id)).cwd).toBe('/')
  })

  it('that is written late does not revive an ended session', async () => {
    const { daemon } = await clocked()
    const { id } = await daemon.create()
    await exec(daemon, id, 'true')
    await daemon.call('DELETE', `/v1/sessions/${id}`)
    await flushLeases(daemon.context)
    expect(await stored(daemon, id)).toMatchObject({ expires_at: null, status: 'terminated' })
  })
})

describe('retention', () => {
  it('keeps ended and failed sessions for a week, then removes them', async () => {
    const { daemon, pass } = await clocked()
    const { id } = await daemon.create()
    await daemon.call('DELETE', `/v1/sessions/${id}`)
    await pass(6 * 86_400)
    await sweep(daemon.context)
    expect((await get(daemon, id)).status).toBe('terminated')
    await pass(86_400)
    await sweep(daemon.context)
    expect((await daemon.call('GET', `/v1/sessions/${id}`)).status).toBe(404)
  })
})
