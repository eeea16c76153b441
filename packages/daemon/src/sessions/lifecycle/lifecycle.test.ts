import { once } from 'node:events'
import { existsSync } from 'node:fs'
import { SESSION_LIFECYCLE, type SessionEvent, type SessionState } from '@sandglass/contract'
import { describe, expect, it } from 'vitest'
import { admitImage } from '../../store/images.ts'
import { daemonFixture, plainChild, type TestDaemon, temporaryFolder, until } from '../../testing/daemon.fixture.ts'
import { terminateSession } from './destroy.ts'

type Shown = {
  id: string
  name: string
  status: SessionState
  reason: string
  terminated_at: string | null
  delete_at: string | null
  expires_at: string | null
  error_message: string | null
}
const get = async (daemon: TestDaemon, id: string) => (await daemon.call('GET', `/v1/sessions/${id}`)).body as Shown

/** Brings a fresh session into a state that a caller can find it in. */
const REACH: Partial<Record<SessionState, (daemon: TestDaemon) => Promise<string>>> = {
  running: async daemon => (await daemon.create()).id,
  paused: daemon => after(daemon, 'pause'),
  stopped: daemon => after(daemon, 'stop'),
  terminated: daemon => after(daemon, 'terminate'),
  failed: async daemon => {
    const { id } = await daemon.create()
    await killRunner(daemon, id)
    await until(async () => (await get(daemon, id)).status === 'failed')
    return id
  },
  timeout: async daemon => {
    const { id } = await daemon.create({ ttl_seconds: 1 })
    await until(async () => (await get(daemon, id)).status === 'timeout')
    return id
  },
}

async function after(daemon: TestDaemon, verb: string): Promise<string> {
  const { id } = await daemon.create()
  expect((await daemon.call('POST', `/v1/sessions/${id}/${verb}`)).status).toBe(200)
  return id
}

async function killRunner(daemon: TestDaemon, id: string): Promise<void> {
  const pid = Number(daemon.context.live.get(id)?.machine.containerId.replace('plain-', ''))
  process.kill(pid, 'SIGKILL')
}

/** Where each verb leads when its event is allowed: through a state that is left by itself, for some. */
const LEADS: Record<string, { event: SessionEvent; to: SessionState }> = {
  start: { event: 'start', to: 'running' },
  stop: { event: 'stop', to: 'stopped' },
  pause: { event: 'pause', to: 'paused' },
  resume: { event: 'resume', to: 'running' },
}

describe('the lifecycle over HTTP', () => {
  for (const [state, reach] of Object.entries(REACH) as [SessionState, (daemon: TestDaemon) => Promise<string>][]) {
    it(`${state}: each verb leads where the table says or is refused with the state`, async () => {
      const daemon = await daemonFixture()
      for (const [verb, { event, to }] of Object.entries(LEADS)) {
        const id = await reach(daemon)
        const reply = await daemon.call('POST', `/v1/sessions/${id}/${verb}`)
        if (event in SESSION_LIFECYCLE[state]) {
          expect([verb, reply.status, (reply.body as Shown).status]).toEqual([verb, 200, to])
        } else {
          expect([verb, reply.status]).toEqual([verb, 409])
          expect(reply.body).toMatchObject({ error: { code: 'WRONG_STATE', detail: { state } } })
          expect((await get(daemon, id)).status).toBe(state)
        }
        await daemon.call('DELETE', `/v1/sessions/${id}?purge=true`)
      }
    })

    it(`${state}: only a running session accepts commands, and ending a session twice is the same as once`, async () => {
      const daemon = await daemonFixture()
      const id = await reach(daemon)
      const exec = await daemon.call('POST', `/v1/sessions/${id}/exec`, { cmd: 'true' })
      expect(exec.status).toBe(state === 'running' ? 200 : 409)
      const isFinal = Object.keys(SESSION_LIFECYCLE[state]).length === 0
      for (let round = 0; round < 2; round++) {
        const ended = (await daemon.call('DELETE', `/v1/sessions/${id}`)).body as Shown
        expect(ended.status).toBe(isFinal ? state : 'terminated')
        expect(ended.delete_at).not.toBeNull()
        expect(ended.expires_at).toBeNull()
      }
    })
  }

  it('a stopped session keeps its files and loses its processes', async () => {
    const daemon = await daemonFixture()
    const { id } = await daemon.create()
    await daemon.call('POST', `/v1/sessions/${id}/exec`, { cmd: 'echo kept > f; export GONE=1' })
    await daemon.call('POST', `/v1/sessions/${id}/stop`)
    await daemon.call('POST', `/v1/sessions/${id}/start`)
    const { body } = await daemon.call('POST', `/v1/sessions/${id}/exec`, { cmd: 'cat f; echo "[$GONE]"' })
    expect(body).toMatchObject({ output: 'kept\n[]\n' })
  })

  it('a session created without start is stopped, and starts on demand', async () => {
    const daemon = await daemonFixture()
    const session = (await daemon.create({ start: false })) as unknown as Shown
    expect([session.status, session.reason]).toEqual(['stopped', 'created_without_start'])
    expect((await daemon.call('POST', `/v1/sessions/${session.id}/start`)).body).toMatchObject({
      status: 'running',
      reason: 'started',
    })
  })

  it('a failed session shows the reason, can be started again with its files, and loses its retention then', async () => {
    const daemon = await daemonFixture()
    const { id } = await daemon.create()
    await daemon.call('POST', `/v1/sessions/${id}/exec`, { cmd: 'echo kept > f' })
    await killRunner(daemon, id)
    const failed = await until(async () => {
      const shown = await get(daemon, id)
      return shown.status === 'failed' && shown
    })
    expect(failed).toMatchObject({
      reason: 'runner_exited',
      error_message: expect.any(String),
      terminated_at: expect.any(String),
    })
    expect((await daemon.call('POST', `/v1/sessions/${id}/start`)).body).toMatchObject({
      status: 'running',
      terminated_at: null,
      delete_at: null,
    })
    expect((await daemon.call('POST', `/v1/sessions/${id}/exec`, { cmd: 'cat f' })).body).toMatchObject({ output: 'kept\n' })
  })

  it('a command whose runner is killed ends with an error', async () => {
    const daemon = await daemonFixture()
    const { id } = await daemon.create()
    const exec = daemon.call('POST', `/v1/sessions/${id}/exec`, { cmd: 'echo $PPID > /dev/null; sleep 30' })
    await until(() => daemon.context.live.get(id)?.holds === 1)
    await killRunner(daemon, id)
    expect([(await exec).status, ((await exec).body as { error: { code: string } }).error.code]).toEqual([502, 'RUNNER_LOST'])
  })

  it('purge removes the record and everything else', async () => {
    const daemon = await daemonFixture()
    const { id } = await daemon.create({ labels: { a: 'b' } })
    const [backend] = daemon.context.backends.values()
    expect(await backend?.sessionIds()).toEqual([id])
    expect((await daemon.call('DELETE', `/v1/sessions/${id}?purge=true`)).status).toBe(200)
    expect((await daemon.call('GET', `/v1/sessions/${id}`)).status).toBe(404)
    expect(await backend?.sessionIds()).toEqual([])
    expect((await daemon.call('GET', '/v1/sessions?all=true')).body).toMatchObject({ total: 0, items: [] })
  })

  it('a name is taken while its session lives, addresses it, and is free afterwards', async () => {
    const daemon = await daemonFixture()
    const { id } = await daemon.create({ name: 'steady-fox' })
    expect((await daemon.call('POST', '/v1/sessions', { name: 'steady-fox' })).body).toMatchObject({
      error: { code: 'NAME_TAKEN' },
    })
    expect((await daemon.call('POST', '/v1/sessions/steady-fox/exec', { cmd: 'true' })).status).toBe(200)
    await daemon.call('DELETE', '/v1/sessions/steady-fox')
    expect((await daemon.call('GET', '/v1/sessions/steady-fox')).body).toMatchObject({ id, status: 'terminated' })
    const again = await daemon.create({ name: 'steady-fox' })
    expect((await daemon.call('GET', '/v1/sessions/steady-fox')).body).toMatchObject({ id: again.id })
  })

  it('a session without a name gets a valid one', async () => {
    const daemon = await daemonFixture()
    expect((await daemon.create({ start: false })).name).toMatch(/^[a-z]+-[a-z]+-[a-z0-9]{4}$/)
  })

  it('terminate ends a start that is under way', async () => {
    const daemon = await daemonFixture()
    const creating = daemon.call('POST', '/v1/sessions', { name: 'slow-one' })
    await until(() => daemon.context.starting.size === 1)
    const ended = await daemon.call('DELETE', '/v1/sessions/slow-one')
    expect(ended.body).toMatchObject({ status: 'terminated' })
    expect([201, 500]).toContain((await creating).status)
    const [backend] = daemon.context.backends.values()
    expect(await backend?.sessionIds()).toEqual([])
  })

  it('terminate ends the start of a session that has just become starting', async () => {
    const backend = plainChild(await temporaryFolder())
    backend.prepare = async () => undefined
    // A start that lasts until it is aborted.
    backend.start = async (_spec, signal) => {
      await once(signal, 'abort')
      throw signal.reason
    }
    const daemon = await daemonFixture({ backends: () => [backend] })
    // The plan of a session with an image reads the store.
    const { context } = daemon
    const image = `sha256:${'1'.repeat(64)}`
    await admitImage(
      context.store,
      {
        id: image,
        manifest_digest: image,
        source: 'archive',
        architecture: 'amd64',
        config: '{}',
        layers: '[]',
        size_bytes: 0,
        created_at: 0,
        last_used_at: 0,
      },
      [],
    )
    const { id } = await daemon.create({ image, start: false })
    const announced = context.changes.next(AbortSignal.timeout(10_000))
    const starting = daemon.call('POST', `/v1/sessions/${id}/start`)
    await announced
    expect(await terminateSession(context, id, context.log)).toMatchObject({ status: 'terminated' })
    expect((await starting).body).toMatchObject({ error: { code: 'START_FAILED' } })
  })
})

describe('create', () => {
  it('refuses images: unknown ones, and those that are not allowed', async () => {
    const daemon = await daemonFixture()
    expect((await daemon.call('POST', '/v1/sessions', { image: `sha256:${'0'.repeat(64)}` })).body).toMatchObject({
      error: { code: 'IMAGE_NOT_FOUND' },
    })
    const none = await daemonFixture({ flags: { 'allowed-images': [''] } })
    expect((await none.call('POST', '/v1/sessions', {})).body).toMatchObject({ error: { code: 'IMAGE_NOT_ALLOWED' } })
    const listed = await daemonFixture({ flags: { 'allowed-images': ['other'] } })
    expect((await listed.call('POST', '/v1/sessions', { image: 'host' })).status).toBe(403)
    for (const d of [daemon, none, listed])
      expect((await d.call('GET', '/v1/sessions?all=true')).body).toMatchObject({ total: 0 })
  })

  it('refuses limits that the host cannot enforce, unless exactly those are allowed', async () => {
    const daemon = await daemonFixture({ flags: { 'backends-oci-allow-unenforced': ['cpu,memory'] } })
    const { body } = await daemon.call('POST', '/v1/sessions', {})
    expect(body).toMatchObject({ error: { code: 'LIMIT_UNENFORCEABLE', detail: { limits: ['pids', 'disk'] } } })
    const lenient = await daemonFixture()
    expect((await lenient.call('POST', '/v1/sessions', {})).body).toMatchObject({ unenforced: ['cpu', 'memory', 'pids', 'disk'] })
  })

  it('without a usable backend fails and says what is missing', async () => {
    const daemon = await daemonFixture({ backends: () => [] })
    expect((await daemon.call('POST', '/v1/sessions', {})).body).toMatchObject({ error: { code: 'BACKEND_UNAVAILABLE' } })
  })

  it('keeps a session that did not start, with the reason, and it can be started again', async () => {
    const daemon = await daemonFixture()
    const [backend] = daemon.context.backends.values()
    if (!backend) throw new Error('no backend')
    const start = backend.start
    backend.start = async () => Promise.reject(new Error('no more loop devices'))
    const reply = await daemon.call('POST', '/v1/sessions', { name: 'unlucky-one' })
    expect(reply.body).toMatchObject({
      error: {
        code: 'START_FAILED',
        message: 'session unlucky-one failed to start: no more loop devices',
        hint: expect.stringMatching(/`sandglass logs unlucky-one --boot`.*`sandglass start unlucky-one`/),
      },
    })
    expect(await (await daemon.fetch('/v1/sessions/unlucky-one/logs')).text()).toBe('no more loop devices\n')
    expect(await get(daemon, 'unlucky-one')).toMatchObject({
      status: 'failed',
      reason: 'start_failed',
      error_message: 'no more loop devices',
    })
    backend.start = start
    expect((await daemon.call('POST', '/v1/sessions/unlucky-one/start')).body).toMatchObject({ status: 'running' })
  })

  it('a persistent session belongs to an agent named after it', async () => {
    const daemon = await daemonFixture()
    expect(await daemon.create({ persist: true, name: 'home-base', start: false })).toMatchObject({
      mode: 'persistent',
      agent_id: 'home-base',
      expires_at: null,
    })
    expect(await daemon.create({ mode: 'persistent', agent_id: 'a7', start: false })).toMatchObject({ agent_id: 'a7' })
    expect(await daemon.create({ start: false })).toMatchObject({ mode: 'ephemeral', agent_id: null })
  })

  it('shows the names of environment variables and never their values, and stores them sealed', async () => {
    const daemon = await daemonFixture()
    const created = await daemon.call('POST', '/v1/sessions', { env: { API_TOKEN: 'hush-hush' } })
    expect(created.body).toMatchObject({ env_names: ['API_TOKEN'] })
    expect(created.text).not.toContain('hush-hush')
    const [row] = await daemon.context.store.selectFrom('sessions').selectAll().execute()
    expect(JSON.stringify(row)).not.toContain('hush-hush')
    expect(row?.env_sealed?.includes('hush-hush')).toBe(false)
    expect(existsSync(`${daemon.dataDir}/secret.key`)).toBe(true)
  })

  it('sent twice with one Idempotency-Key creates one session, also at the same time', async () => {
    const daemon = await daemonFixture()
    const headers = { 'idempotency-key': 'k-1' }
    const replies = await Promise.all([1, 2, 3].map(() => daemon.call('POST', '/v1/sessions', { labels: { a: '1' } }, headers)))
    const [first, ...others] = new Set(replies.map(r => (r.body as Shown).id))
    expect(others).toEqual([])
    const later = await daemon.call('POST', '/v1/sessions', { labels: { a: '1' } }, headers)
    expect([later.status, (later.body as Shown).id]).toEqual([201, first])
    const other = await daemon.call('POST', '/v1/sessions', { labels: { a: '2' } }, headers)
    expect(other.body).toMatchObject({ error: { code: 'IDEMPOTENCY_MISMATCH' } })
    expect((await daemon.call('GET', '/v1/sessions')).body).toMatchObject({ total: 1 })
  })

  it('a process sent twice with one key is started once', async () => {
    const daemon = await daemonFixture()
    const { id } = await daemon.create()
    const start = () => daemon.call('POST', `/v1/sessions/${id}/processes`, { argv: ['sleep', '5'] }, { 'idempotency-key': 'p' })
    const [a, b] = [await start(), await start()]
    expect([a.status, (b.body as { pid: number }).pid]).toEqual([201, (a.body as { pid: number }).pid])
    expect((await daemon.call('GET', `/v1/sessions/${id}/processes`)).body).toMatchObject({ items: [{ argv: ['sleep', '5'] }] })
  })
})

describe('different sessions', () => {
  it('never wait for each other', async () => {
    const daemon = await daemonFixture()
    const [slow, quick] = await Promise.all([daemon.create(), daemon.create()])
    const waiting = daemon.call('POST', `/v1/sessions/${slow.id}/exec`, { cmd: 'until test -e go; do sleep 0.05; done' })
    await until(() => daemon.context.live.get(slow.id)?.holds === 1)
    for (let i = 0; i < 10; i++)
      expect((await daemon.call('POST', `/v1/sessions/${quick.id}/exec`, { cmd: 'true' })).status).toBe(200)
    await daemon.call('POST', `/v1/sessions/${quick.id}/stop`)
    await daemon.call('POST', `/v1/sessions/${slow.id}/fs/write`, { path: 'go', text: '' })
    expect((await waiting).body).toMatchObject({ exit_code: 0, timed_out: false })
  })

  it('verbs of one session run one after another', async () => {
    const daemon = await daemonFixture()
    const { id } = await daemon.create()
    const replies = await Promise.all(
      ['stop', 'start', 'stop', 'start', 'pause', 'resume'].map(verb => daemon.call('POST', `/v1/sessions/${id}/${verb}`)),
    )
    expect(replies.map(r => r.status)).toEqual([200, 200, 200, 200, 200, 200])
  })
})
