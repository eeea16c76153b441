import { describe, expect, it } from 'vitest'
import { daemonFixture, plainChild, type TestDaemon, temporaryFolder, until } from '../../testing/daemon.fixture.ts'

const CALLS = ['exec', 'exec/stream'] as const

const exec = async (daemon: TestDaemon, id: string, body: object) =>
  (await daemon.call('POST', `/v1/sessions/${id}/exec`, body)).body as { output: string; exit_code: number; duration_ms: number }

/** Sends a command and does not wait for its end. `leave` breaks the connection off. */
function begin(daemon: TestDaemon, id: string, call: (typeof CALLS)[number], body: object) {
  const leaving = new AbortController()
  const headers = { 'content-type': 'application/json' }
  const reply = daemon
    .fetch(`/v1/sessions/${id}/${call}`, { method: 'POST', body: JSON.stringify(body), headers, signal: leaving.signal })
    .then(response => response.text())
  reply.catch(() => undefined) // it was left
  return { reply, leave: () => leaving.abort() }
}

/** Looks from another shell whether a file is there. */
const isThere = async (daemon: TestDaemon, id: string, file: string) =>
  (await exec(daemon, id, { cmd: `test -e ${file}`, shell: 'look' })).exit_code === 0

async function session() {
  const daemon = await daemonFixture()
  const { id } = await daemon.create()
  await exec(daemon, id, { cmd: 'KEPT=yes' })
  return { daemon, id, holds: () => daemon.context.live.get(id)?.holds }
}

describe.each(CALLS)('a client that leaves %s', call => {
  it('interrupts its command, and the shell is free with its state', async () => {
    const { daemon, id, holds } = await session()
    const { leave } = begin(daemon, id, call, { cmd: 'touch up; sleep 60; touch late', timeout_ms: 100_000 })
    await until(() => isThere(daemon, id, 'up'))
    leave()
    expect(await exec(daemon, id, { cmd: 'echo $KEPT; ls late 2>/dev/null', timeout_ms: 10_000 })).toMatchObject({
      output: 'yes\n',
    })
    await until(() => holds() === 0)
  })

  it('kills a command that ignores the interrupt', async () => {
    const { daemon, id } = await session()
    const { leave } = begin(daemon, id, call, { cmd: `sh -c 'trap "" INT; touch up; sleep 60; sleep 60'` })
    await until(() => isThere(daemon, id, 'up'))
    leave()
    expect(await exec(daemon, id, { cmd: 'echo $KEPT', timeout_ms: 10_000 })).toMatchObject({ output: 'yes\n' })
  })

  it('withdraws a command that waits for its shell', async () => {
    const { daemon, id, holds } = await session()
    const first = begin(daemon, id, 'exec', { cmd: 'touch up; until test -e go; do sleep 0.02; done' })
    await until(() => isThere(daemon, id, 'up'))
    const second = begin(daemon, id, call, { cmd: 'touch late' })
    await until(() => holds() === 2)
    second.leave()
    await until(() => holds() === 1)
    await exec(daemon, id, { cmd: 'touch go', shell: 'look' })
    await first.reply
    expect(await exec(daemon, id, { cmd: 'ls late' })).toMatchObject({ exit_code: 2 })
  })

  it('lets a command with `detach` go on', async () => {
    const { daemon, id, holds } = await session()
    const { leave } = begin(daemon, id, call, {
      cmd: 'touch up; until test -e go; do sleep 0.02; done; echo done > f',
      detach: true,
    })
    await until(() => isThere(daemon, id, 'up'))
    leave()
    await until(async () => (await isThere(daemon, id, 'up')) && holds() === 1)
    await exec(daemon, id, { cmd: 'touch go', shell: 'look' })
    expect(await exec(daemon, id, { cmd: 'cat f' })).toMatchObject({ output: 'done\n' })
    await until(() => holds() === 0)
  })
})

it('a daemon that stops interrupts no command', async () => {
  const machines = await temporaryFolder()
  const dataDir = await temporaryFolder()
  const backends = () => [plainChild(machines)]
  const before = await daemonFixture({ dataDir, backends })
  const { id } = await before.create()
  const waits = (name: string) => `touch up-${name}; until test -e go; do sleep 0.02; done; echo ${name} >> f`
  const calls = CALLS.map((call, i) => begin(before, id, call, { cmd: waits(`${i}`), shell: `s${i}` }))
  await until(async () => (await isThere(before, id, 'up-0')) && (await isThere(before, id, 'up-1')))
  await before.close()
  await Promise.allSettled(calls.map(call => call.reply))
  const after = await daemonFixture({ dataDir, backends })
  await exec(after, id, { cmd: 'touch go' })
  await until(async () => (await exec(after, id, { cmd: 'sort f' })).output === '0\n1\n')
})

describe('interrupt', () => {
  const interrupt = async (daemon: TestDaemon, id: string, shell: string) =>
    (await daemon.call('POST', `/v1/sessions/${id}/shells/${shell}/interrupt`)).body

  it('ends the command of a shell, and reports when there is none', async () => {
    const { daemon, id } = await session()
    expect(await interrupt(daemon, id, 'main')).toEqual({ interrupted: false })
    const { reply } = begin(daemon, id, 'exec', { cmd: 'touch up; sleep 60' })
    await until(() => isThere(daemon, id, 'up'))
    expect(await interrupt(daemon, id, 'main')).toEqual({ interrupted: true })
    expect(JSON.parse(await reply)).toMatchObject({ exit_code: 130, timed_out: false, output: '' })
    expect(await exec(daemon, id, { cmd: 'echo $KEPT' })).toMatchObject({ output: 'yes\n' })
    expect(await interrupt(daemon, id, 'nobody')).toMatchObject({ error: { code: 'SHELL_NOT_FOUND' } })
  })
})

describe('the time of a command', () => {
  it('counts from the request: a command whose timeout passes while it waits never runs', async () => {
    const { daemon, id } = await session()
    const first = begin(daemon, id, 'exec', { cmd: 'touch up; until test -e go; do sleep 0.02; done' })
    await until(() => isThere(daemon, id, 'up'))
    const late = await exec(daemon, id, { cmd: 'touch late', timeout_ms: 200 })
    expect(late).toMatchObject({ exit_code: 124, timed_out: true, started: false, timeout_ms: 200, output: '' })
    const streamed = await begin(daemon, id, 'exec/stream', { cmd: 'touch late', timeout_ms: 200 }).reply
    expect(streamed).toMatch(/event: waiting\ndata: {"shell":"main",.*event: done\ndata: .*"started":false/s)
    await exec(daemon, id, { cmd: 'touch go', shell: 'look' })
    await first.reply
    expect(await isThere(daemon, id, 'late')).toBe(false)
  })

  it('is unlimited in a stream unless the request sets it', async () => {
    const { daemon, id } = await session()
    for (const [timeout_ms, applied] of [
      [86_400_000 * 365, 86_400_000 * 365],
      [undefined, null],
    ] as const) {
      const events = await begin(daemon, id, 'exec/stream', { cmd: 'echo hi', timeout_ms }).reply
      expect(events).toContain(`"timeout_ms":${applied}`)
      expect(events).toContain('"started":true')
    }
    expect(await exec(daemon, id, { cmd: 'true' })).toMatchObject({ timeout_ms: 30_000, started: true })
  })
})

describe('settings of a command', () => {
  it('apply to that command alone: folder, variables and stdin', async () => {
    const { daemon, id } = await session()
    const cmd = 'pwd; echo "$A"; cat'
    await exec(daemon, id, { cmd: 'echo input > /tmp/in-$$; cp /tmp/in-$$ in; cd /' })
    expect(await exec(daemon, id, { cmd, cwd: '/usr', env: { A: `it's "$HOME"` }, stdin_path: 'in' })).toMatchObject({
      output: `/usr\nit's "$HOME"\ninput\n`,
      cwd: '/',
    })
    expect(await exec(daemon, id, { cmd: 'pwd; echo "[$A]"; cat' })).toMatchObject({ output: '/\n[]\n' })
  })

  it('that are invalid are refused by both calls, and nothing runs', async () => {
    const { daemon, id } = await session()
    for (const call of CALLS) {
      const refused = async (body: object) =>
        (await daemon.call('POST', `/v1/sessions/${id}/${call}`, { cmd: 'touch ran', ...body })).body
      expect(await refused({ cwd: '/nowhere' })).toMatchObject({
        error: { code: 'FILE_NOT_FOUND', detail: { path: '/nowhere' } },
      })
      expect(await refused({ env: { 'A;id': '1' } })).toMatchObject({ error: { code: 'INVALID_REQUEST' } })
      expect(await refused({ user: 'sandbox', shell: 'main@root' })).toMatchObject({ error: { code: 'INVALID_REQUEST' } })
    }
    expect(await isThere(daemon, id, 'ran')).toBe(false)
  })

  it('with another user run in a shell of that user, which does not change the session’s folder', async () => {
    const { daemon, id } = await session()
    const { cwd } = (await daemon.call('GET', `/v1/sessions/${id}`)).body as { cwd: string }
    expect(await exec(daemon, id, { cmd: 'echo "[$KEPT]"; cd /usr', user: 'root' })).toMatchObject({
      output: '[]\n',
      shell: 'main@root',
    })
    expect((await daemon.call('GET', `/v1/sessions/${id}`)).body).toMatchObject({ cwd })
    const { items } = (await daemon.call('GET', `/v1/sessions/${id}/shells`)).body as { items: object[] }
    expect(items).toMatchObject([
      { name: 'main', user: 'sandbox' },
      { name: 'main@root', user: 'root' },
    ])
    expect((await daemon.call('DELETE', `/v1/sessions/${id}/shells/main@root`)).body).toEqual({ ok: true })
  })
})
