import { existsSync } from 'node:fs'
import { describe, expect, it } from 'vitest'
import { checkEgress } from '../../egress/check.ts'
import { controlSocket, logFolder } from '../../egress/folders.ts'
import { daemonFixture, type TestDaemon, until } from '../../testing/daemon.fixture.ts'
import { API, egressDaemonFixture, OTHER } from '../../testing/egress-daemon.fixture.ts'

const putPolicy = (daemon: TestDaemon, name: string, policy: object) => daemon.call('PUT', `/v1/policies/${name}`, policy)
const egressPid = async (daemon: TestDaemon) => Number(/pid (\d+)/.exec((await checkEgress(daemon.dataDir))?.detail ?? '')?.[1])
const knownSessions = async (daemon: TestDaemon) => {
  const { sessions } = await (await daemon.context.egress.supervisor.ensure()).request('list_sessions', {})
  return sessions.map(({ id }) => id)
}

describe('a session with a policy', () => {
  it('reaches what the policy allows and nothing else, from the moment it is announced', async () => {
    const { daemon, send, seen } = await egressDaemonFixture()
    await putPolicy(daemon, 'mine', { domains: [API] })
    const { id } = await daemon.create({ policies: ['mine'] })
    expect(await send(id, `http://${API}/a`)).toBe('200')
    expect(await send(id, `http://${OTHER}/b`)).toBe('403')
    expect(seen.map(({ url }) => url)).toEqual(['/a'])
  })

  it('gets a changed policy at once, and other policies too', async () => {
    const { daemon, send } = await egressDaemonFixture()
    await putPolicy(daemon, 'base', { domains: [] })
    await putPolicy(daemon, 'mine', { include: ['base'] })
    const { id } = await daemon.create({ policies: ['mine'] })
    expect(await send(id, `http://${API}/`)).toBe('403')
    await putPolicy(daemon, 'base', { domains: [API] })
    expect(await send(id, `http://${API}/`)).toBe('200')
    const changed = await daemon.call('PUT', `/v1/sessions/${id}/policies`, { policies: [] })
    expect(changed.body).toMatchObject({
      network: 'allowlist',
      policies: [],
      warnings: [expect.stringContaining('reach nothing')],
    })
    expect(await send(id, `http://${API}/`)).toBe('403')
    await daemon.call('PUT', `/v1/sessions/${id}/policies`, { policy_mode: 'observe' })
    expect(await send(id, `http://${API}/`)).toBe('200')
  })

  it('leaves the egress process when it stops, and joins it again when it starts', async () => {
    const { daemon, send } = await egressDaemonFixture()
    await putPolicy(daemon, 'mine', { domains: [API] })
    const { id } = await daemon.create({ policies: ['mine'] })
    expect(await knownSessions(daemon)).toEqual([id])
    await daemon.call('POST', `/v1/sessions/${id}/stop`)
    await until(async () => (await knownSessions(daemon)).length === 0)
    await daemon.call('POST', `/v1/sessions/${id}/start`)
    expect(await knownSessions(daemon)).toEqual([id])
    expect(await send(id, `http://${API}/`)).toBe('200')
    await daemon.call('POST', `/v1/sessions/${id}/terminate`)
    await until(async () => (await knownSessions(daemon)).length === 0)
  })

  it('keeps its connections over a pause', async () => {
    const { daemon, send } = await egressDaemonFixture()
    const { id } = await daemon.create({ network: 'allowlist', policy_mode: 'observe' })
    await daemon.call('POST', `/v1/sessions/${id}/pause`)
    expect(await knownSessions(daemon)).toEqual([id])
    await daemon.call('POST', `/v1/sessions/${id}/resume`)
    expect(await send(id, `http://${API}/`)).toBe('200')
  })

  it('works again after the egress process was killed', async () => {
    const { daemon, send } = await egressDaemonFixture()
    await putPolicy(daemon, 'mine', { domains: [API] })
    const { id } = await daemon.create({ policies: ['mine'] })
    const pid = await egressPid(daemon)
    process.kill(pid, 'SIGKILL')
    await until(async () => (await egressPid(daemon)) > 0 && (await egressPid(daemon)) !== pid)
    await until(async () => (await send(id, `http://${API}/`)) === '200')
    expect(await send(id, `http://${OTHER}/`)).toBe('403')
  })

  it('uses the same egress process after a restart of the daemon, which ends it when nobody needs it', async () => {
    const fixture = await egressDaemonFixture()
    await putPolicy(fixture.daemon, 'mine', { domains: [API] })
    const { id } = await fixture.daemon.create({ policies: ['mine'] })
    const gone = await fixture.daemon.create({ policies: ['mine'] })
    const pid = await egressPid(fixture.daemon)
    const backend = fixture.daemon.context.live.get(gone.id)?.machine
    const daemon = await fixture.restart()
    expect(await egressPid(daemon)).toBe(pid)
    expect(await fixture.send(id, `http://${API}/`)).toBe('200')
    expect(await fixture.send(id, `http://${OTHER}/`)).toBe('403')
    await backend?.destroy()
    await until(async () => (await knownSessions(daemon)).length === 1)
    await daemon.call('DELETE', `/v1/sessions/${id}`)
    await daemon.close()
    await until(() => !existsSync(controlSocket(daemon.dataDir)))
  })

  it('has a network log that is removed with its row', async () => {
    const { daemon, send } = await egressDaemonFixture()
    const { id } = await daemon.create({ network: 'allowlist', policy_mode: 'observe' })
    await send(id, `http://${API}/`)
    const folder = logFolder(daemon.dataDir, id)
    await until(() => existsSync(`${folder}/network-sandbox.log`))
    await daemon.call('POST', `/v1/sessions/${id}/terminate`)
    expect(existsSync(folder)).toBe(true)
    await daemon.call('DELETE', `/v1/sessions/${id}?purge=true`)
    expect(existsSync(folder)).toBe(false)
  })
})

it('a session without a network starts no egress process and makes no certificate authority', async () => {
  const daemon = await daemonFixture()
  await daemon.create()
  expect(daemon.context.egress.supervisor.isConnected).toBe(false)
  expect(await checkEgress(daemon.dataDir)).toBeNull()
  expect(await daemon.context.trusted()).toBeUndefined()
})

it('a start while the egress process hangs is refused, and the process is replaced', { timeout: 60_000 }, async () => {
  const { daemon, send } = await egressDaemonFixture()
  await putPolicy(daemon, 'mine', { domains: [API] })
  const { id } = await daemon.create({ policies: ['mine'] })
  const pid = await egressPid(daemon)
  process.kill(pid, 'SIGSTOP')
  const refused = await daemon.call('POST', '/v1/sessions', { policies: ['mine'] })
  expect(refused).toMatchObject({ status: 503, body: { error: { code: 'EGRESS_UNAVAILABLE' } } })
  expect((await daemon.call('GET', '/v1/sessions?all=true')).body).toMatchObject({ total: 1 })
  await until(async () => (await send(id, `http://${API}/`)) === '200', 30_000)
  expect(await knownSessions(daemon)).toEqual([id])
})

it('a start whose egress process cannot be configured is refused, and leaves nothing', async () => {
  const { daemon } = await egressDaemonFixture({ ca_files: ['/nonexistent/ca.pem'] })
  const refused = await daemon.call('POST', '/v1/sessions', { name: 'box', network: 'allowlist' })
  expect(refused).toMatchObject({ status: 503, body: { error: { code: 'EGRESS_UNAVAILABLE' } } })
  expect(refused.text).toContain('egress.ca_files')
  expect((await daemon.call('GET', '/v1/sessions?all=true')).body).toMatchObject({ total: 0 })
  for (const backend of daemon.context.backends.values()) expect(await backend.sessionIds()).toEqual([])
})
