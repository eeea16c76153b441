import { mkdir, readdir, readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { SandglassError, socketProtocols } from '@sandglass/contract'
import { describe, expect, it, onTestFinished } from 'vitest'
import { daemonFixture, plainChild, temporaryFolder, until } from '../../testing/daemon.fixture.ts'
import { type DaemonProcess, endDaemon, KEY, spawnDaemon } from '../../testing/daemon-process.fixture.ts'

async function ground(): Promise<{ dataDir: string; machines: string; start(): Promise<DaemonProcess> }> {
  const folder = await temporaryFolder()
  const [dataDir, machines] = [join(folder, 'data'), join(folder, 'm')]
  await mkdir(machines)
  const started: DaemonProcess[] = []
  onTestFinished(async () => {
    for (const daemon of started) await endDaemon(daemon, 'SIGKILL')
    const backend = plainChild(machines)
    for (const id of await backend.sessionIds()) await backend.discard(id)
  })
  return {
    dataDir,
    machines,
    async start() {
      const daemon = await spawnDaemon(dataDir, machines)
      started.push(daemon)
      return daemon
    },
  }
}

type Shown = { id: string; status: string; reason: string; cwd: string; expires_at: string; error_message: string | null }
const create = async (daemon: DaemonProcess, spec: object = {}) => (await daemon.call('POST', '/v1/sessions', spec)).body as Shown
const get = async (daemon: DaemonProcess, id: string) => (await daemon.call('GET', `/v1/sessions/${id}`)).body as Shown
const exec = async (daemon: DaemonProcess, id: string, cmd: string) =>
  (await daemon.call('POST', `/v1/sessions/${id}/exec`, { cmd })).body as {
    output: string
    exit_code: number
    error?: { code: string }
  }

/** Processes that carry the mark of a machine in this folder, by session. */
async function processes(machines: string): Promise<string[]> {
  const ids: string[] = []
  for (const pid of (await readdir('/proc')).filter(n => /^\d+$/.test(n))) {
    const [environ, stat] = await Promise.all([
      readFile(`/proc/${pid}/environ`, 'latin1').catch(() => ''),
      readFile(`/proc/${pid}/cmdline`, 'latin1').catch(() => ''),
    ])
    if (stat.includes(machines) || environ.includes(machines)) ids.push(/sess_[a-z0-9]{16}/.exec(stat + environ)?.[0] ?? pid)
  }
  return [...new Set(ids)]
}

describe('the next daemon', () => {
  it('keeps a session with an expired lease as long as a detached process runs in it', async () => {
    const { start } = await ground()
    const first = await start()
    // Long enough that a busy machine starts the process before the lease ends.
    const [idle, busy] = [await create(first, { ttl_seconds: 5 }), await create(first, { ttl_seconds: 5 })]
    await first.call('POST', `/v1/sessions/${idle.id}/processes`, { argv: ['sleep', '1000'] })
    await first.call('POST', `/v1/sessions/${busy.id}/processes`, { argv: ['sleep', '1000'], detach: true })
    await endDaemon(first, 'SIGKILL')
    await until(() => Date.now() > Date.parse(busy.expires_at) + 2000)
    const second = await start()
    await until(async () => (await get(second, idle.id)).status === 'timeout')
    await until(async () => Date.parse((await get(second, busy.id)).expires_at) > Date.now())
    expect((await get(second, busy.id)).status).toBe('running')
  }, 60_000)

  it.each(['SIGTERM', 'SIGKILL'] as const)(
    'after %s finds shells, directories, environment, jobs and processes unchanged',
    async signal => {
      const { start } = await ground()
      const first = await start()
      const { id } = await create(first, { name: 'long-lived' })
      await exec(first, id, 'mkdir d; cd d; export A=1; f() { echo from-f; }; sleep 1000 &')
      const { pid } = (await first.call('POST', `/v1/sessions/${id}/processes`, { argv: ['sleep', '1000'] })).body as {
        pid: number
      }
      const exit = await endDaemon(first, signal)
      if (signal === 'SIGTERM') expect(exit).toBe(0)
      const second = await start()
      expect(await exec(second, 'long-lived', 'basename $PWD; echo $A; f; jobs | grep -c sleep')).toMatchObject({
        output: 'd\n1\nfrom-f\n1\n',
        exit_code: 0,
      })
      expect((await second.call('GET', `/v1/sessions/${id}/processes`)).body).toMatchObject({ items: [{ pid, running: true }] })
      expect(await get(second, id)).toMatchObject({ status: 'running', cwd: expect.stringMatching(/\/d$/) })
    },
  )

  it('keeps a session’s own ttl and the rest of its lease', async () => {
    const { start } = await ground()
    const first = await start()
    const { id } = await create(first, { ttl_seconds: 77 })
    const before = await get(first, id)
    await endDaemon(first, 'SIGKILL')
    const second = await start()
    expect(await get(second, id)).toMatchObject({ expires_at: before.expires_at, ttl_seconds: 77 })
  })

  it('fails sessions whose machine is gone, with the reason, and removes machines without a session', async () => {
    const { start, machines } = await ground()
    const first = await start()
    const [gone, dead, ended] = [await create(first), await create(first), await create(first)]
    const [stopped] = [await create(first)]
    await first.call('POST', `/v1/sessions/${stopped.id}/stop`)
    await endDaemon(first, 'SIGKILL')
    const backend = plainChild(machines)
    await backend.discard(gone.id)
    await backend.discard(stopped.id)
    await (await backend.recover()).find(m => m.id === dead.id)?.stop()
    await mkdir(join(machines, 'sess_orphan0000000000'))
    const second = await start()
    expect(await get(second, gone.id)).toMatchObject({
      status: 'failed',
      reason: 'machine_missing',
      error_message: expect.any(String),
    })
    expect(await get(second, dead.id)).toMatchObject({ status: 'failed', reason: 'machine_missing' })
    expect(await get(second, stopped.id)).toMatchObject({ status: 'failed', reason: 'machine_missing' })
    expect(await get(second, ended.id)).toMatchObject({ status: 'running' })
    await until(async () => (await backend.sessionIds()).toSorted().join() === [dead.id, ended.id].toSorted().join())
  })

  it('resumes a paused session whose machine runs and cannot be paused again', async () => {
    const [dataDir, machines] = [await temporaryFolder(), await temporaryFolder()]
    const first = await daemonFixture({ dataDir, backends: () => [plainChild(machines)] })
    const { id } = await first.create()
    await first.call('POST', `/v1/sessions/${id}/pause`)
    await first.close()
    const stubborn = plainChild(machines)
    const recover = stubborn.recover.bind(stubborn)
    const pause = () => Promise.reject(new SandglassError('PAUSE_FAILED', { seconds: 10 }))
    stubborn.recover = async () => (await recover()).map(machine => Object.assign(machine, { pause }))
    const second = await daemonFixture({ dataDir, backends: () => [stubborn] })
    expect((await second.call('GET', `/v1/sessions/${id}`)).body).toMatchObject({ status: 'running' })
    expect((await second.call('POST', `/v1/sessions/${id}/exec`, { cmd: 'echo runs' })).body).toMatchObject({ output: 'runs\n' })
  })

  it('keeps a paused session paused, and its shell survives the resume', async () => {
    const { start } = await ground()
    const first = await start()
    const { id } = await create(first)
    await exec(first, id, 'export A=1')
    await first.call('POST', `/v1/sessions/${id}/pause`)
    await endDaemon(first, 'SIGKILL')
    const second = await start()
    expect(await get(second, id)).toMatchObject({ status: 'paused' })
    expect((await second.call('POST', `/v1/sessions/${id}/resume`)).status).toBe(200)
    expect(await exec(second, id, 'echo $A')).toMatchObject({ output: '1\n' })
  })

  it('ends sessions that expired while no daemon ran', async () => {
    const { start, machines } = await ground()
    const first = await start()
    const { id, expires_at } = await create(first, { ttl_seconds: 1 })
    await endDaemon(first, 'SIGKILL')
    await until(() => Date.now() > Date.parse(expires_at))
    const second = await start()
    await until(async () => (await get(second, id)).status === 'timeout')
    await until(async () => (await readdir(machines)).length === 0)
  })
})

describe('a daemon that is asked to stop', () => {
  it('ends in time with a command, a stream and a terminal open, and the command runs on', async () => {
    const { start } = await ground()
    const first = await start()
    const { id } = await create(first)
    const running = first
      .call('POST', `/v1/sessions/${id}/exec`, { cmd: 'echo begun > f; until test -e go; do sleep 0.05; done; echo ended >> f' })
      .catch(() => undefined)
    const streamed = fetch(`${first.url}/v1/sessions/${id}/exec/stream`, {
      method: 'POST',
      headers: { authorization: `Bearer ${KEY}`, 'content-type': 'application/json' },
      body: JSON.stringify({ cmd: 'until test -e go; do sleep 0.05; done', shell: 'other' }),
    }).then(r => r.text())
    const following = fetch(`${first.url}/v1/events`, { headers: { authorization: `Bearer ${KEY}` } }).then(r => r.text())
    const terminal = new WebSocket(`${first.url.replace('http', 'ws')}/v1/sessions/${id}/shells/b/attach`, socketProtocols(KEY))
    await new Promise(resolve => terminal.addEventListener('open', resolve))
    const closed = new Promise<number>(resolve => terminal.addEventListener('close', event => resolve(event.code)))
    await until(async () => (await first.call('GET', `/v1/sessions/${id}/fs/stat?path=f`)).status === 200)
    // The command ends only after the daemon has.
    expect(await endDaemon(first, 'SIGTERM')).toBe(0)
    expect(await following).toContain('SHUTTING_DOWN')
    expect(await closed).toBe(1012)
    const mayRun = `may still be running in the session: \`sandglass ps ${id}\``
    expect(await following).toContain('try again in a moment')
    expect(await streamed).toContain(mayRun)
    await running
    const second = await start()
    await second.call('POST', `/v1/sessions/${id}/fs/write`, { path: 'go', text: '' })
    expect(await exec(second, id, 'cat f')).toMatchObject({ output: 'begun\nended\n' })
  })
})

describe('kill -9 of the daemon at any moment', () => {
  const ROUNDS = 20
  it(`during create, exec, write and destroy, ${ROUNDS} times: nothing is lost and nothing is left over`, async () => {
    const { start, machines } = await ground()
    let daemon = await start()
    const witness = await create(daemon, { name: 'witness' })
    await exec(daemon, 'witness', 'export COUNT=0')
    let interrupted = 0
    for (let round = 0; round < ROUNDS; round++) {
      const victim = await create(daemon)
      const deadline = Math.random() * 60
      const answered = [witness.id, victim.id]
      const createAnother = async (from: DaemonProcess) => void answered.push((await create(from)).id)
      const work = Promise.allSettled([
        createAnother(daemon),
        createAnother(daemon),
        exec(daemon, victim.id, 'sleep 0.05; echo x'),
        daemon.call('POST', `/v1/sessions/witness/fs/write`, { path: 'f', text: `${round}\n`.repeat(20_000) }),
        daemon.call('DELETE', `/v1/sessions/${victim.id}`),
      ])
      await new Promise(resolve => setTimeout(resolve, deadline))
      await endDaemon(daemon, 'SIGKILL')
      await work
      daemon = await start()

      const { items } = (await daemon.call('GET', '/v1/sessions?all=true&limit=200')).body as { items: Shown[] }
      interrupted += items.filter(({ id }) => !answered.includes(id)).length
      for (const session of items) expect(['running', 'failed', 'terminated'], JSON.stringify(session)).toContain(session.status)
      const running = items.filter(s => s.status === 'running').map(s => s.id)
      const failed = items.filter(s => s.status === 'failed')
      for (const session of failed) expect(session.reason).toBe('interrupted_create')
      for (const id of running) expect(await exec(daemon, id, 'echo alive')).toMatchObject({ output: 'alive\n' })
      const kept = new Set([...running])
      // Leftovers are removed while requests are accepted.
      await until(async () => (await readdir(machines)).every(id => kept.has(id)))
      await until(async () => (await processes(machines)).every(id => !id.startsWith('sess_') || kept.has(id)))
      // A write happened as a whole or not at all.
      const file = await exec(daemon, 'witness', 'test ! -e f || sort -u f | wc -l')
      expect(['', '1\n']).toContain(file.output)
      expect(await exec(daemon, 'witness', 'COUNT=$((COUNT+1)); echo $COUNT')).toMatchObject({ output: `${round + 1}\n` })
      for (const { id } of items) if (id !== witness.id) await daemon.call('DELETE', `/v1/sessions/${id}?purge=true`)
    }
    expect(await readdir(machines)).toEqual([witness.id])
    expect(interrupted).toBeGreaterThan(0)
  }, 400_000)
})
