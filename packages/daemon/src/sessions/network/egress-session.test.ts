import { describe, expect, it } from 'vitest'
import { findSession } from '../../store/sessions.ts'
import { daemonFixture, type TestDaemon } from '../../testing/daemon.fixture.ts'
import { API, type EgressDaemon, egressDaemonFixture } from '../../testing/egress-daemon.fixture.ts'

const VALUE = 'tok_0123456789abcdefABCDEF'
const NEXT = 'tok_fedcba9876543210FEDCBA'
const SPEC = { value: VALUE, scopes: [API], headers: ['authorization'], env: 'API_TOKEN' }

const put = (daemon: TestDaemon, name: string, spec: object) => daemon.call('PUT', `/v1/secrets/${name}`, spec)
async function variable(daemon: TestDaemon, id: string, name: string): Promise<string> {
  const { body } = await daemon.call('POST', `/v1/sessions/${id}/exec`, { cmd: `printf %s "$${name}"` })
  return (body as { output: string }).output
}
/** Sends a request with the variable in the authorization header, and returns what the server has seen. */
async function authorised({ daemon, send, seen }: EgressDaemon, id: string): Promise<string | undefined> {
  const token = await variable(daemon, id, 'API_TOKEN')
  expect(await send(id, `https://${API}/`, '-H', `Authorization: Bearer ${token}`)).toBe('200')
  return seen.at(-1)?.headers.authorization
}

describe('a secret of a session', () => {
  it('is a surrogate inside, and its value at the server', async () => {
    const fixture = await egressDaemonFixture()
    const { daemon } = fixture
    await daemon.call('PUT', '/v1/policies/mine', { domains: [API] })
    await put(daemon, 'token', SPEC)
    const created = await daemon.call('POST', '/v1/sessions', {
      policies: ['mine'],
      secrets: ['token'],
      env: { API_TOKEN: 'plain' },
    })
    expect(created.body).toMatchObject({
      secrets: ['token'],
      warnings: ['the variable API_TOKEN has the surrogate of the secret token, not the value in env'],
    })
    const { id } = created.body as { id: string }
    const inside = await variable(daemon, id, 'API_TOKEN')
    expect(inside).toMatch(/^[0-9A-Za-z_-]{26}$/)
    expect(inside).not.toBe(VALUE)
    expect(await authorised(fixture, id)).toBe(`Bearer ${VALUE}`)
    const shown = await daemon.call('GET', `/v1/sessions/${id}?reveal_env=true`)
    expect(
      shown.text + JSON.stringify(daemon.logged) + JSON.stringify(await findSession(daemon.context.store, { id })),
    ).not.toContain(VALUE)
  })

  it('has its next value at once, and none after its removal; the surrogate stays over a restart', async () => {
    const fixture = await egressDaemonFixture()
    const { daemon } = fixture
    await put(daemon, 'token', SPEC)
    const { id } = await daemon.create({ network: 'allowlist', policy_mode: 'observe', secrets: ['token'] })
    const inside = await variable(daemon, id, 'API_TOKEN')
    await daemon.call('POST', '/v1/secrets/token/rotate', { value: NEXT })
    expect(await authorised(fixture, id)).toBe(`Bearer ${NEXT}`)
    await daemon.call('POST', `/v1/sessions/${id}/stop`)
    await daemon.call('POST', `/v1/sessions/${id}/start`)
    expect(await variable(daemon, id, 'API_TOKEN')).toBe(inside)
    expect(await authorised(fixture, id)).toBe(`Bearer ${NEXT}`)
    await put(daemon, 'token', { ...SPEC, scopes: ['elsewhere.example'] })
    expect(await authorised(fixture, id)).not.toContain(VALUE)
    await put(daemon, 'token', SPEC)
    expect(await authorised(fixture, id)).toBe(`Bearer ${VALUE}`)
    await daemon.call('DELETE', '/v1/secrets/token')
    expect(await authorised(fixture, id)).toBe(`Bearer ${inside}`)
    await daemon.call('POST', `/v1/sessions/${id}/stop`)
    const without = (await daemon.call('POST', `/v1/sessions/${id}/start`)).body
    expect(without).toMatchObject({
      status: 'running',
      warnings: expect.arrayContaining([expect.stringContaining('the secret token was removed')]),
    })
    await daemon.call('POST', `/v1/sessions/${id}/stop`)
    const started = await daemon.call('POST', `/v1/sessions/${id}/start`, { secrets: [] })
    expect(started.body).toMatchObject({ status: 'running', secrets: [] })
    expect(await variable(daemon, id, 'API_TOKEN')).toBe('')
  })

  it('is a surrogate also in a session without a network, which is warned', async () => {
    const daemon = await daemonFixture()
    await put(daemon, 'token', SPEC)
    const created = await daemon.call('POST', '/v1/sessions', { secrets: ['token'] })
    expect(created.body).toMatchObject({ network: 'none', warnings: [expect.stringContaining('calls that use it will fail')] })
    const inside = await variable(daemon, (created.body as { id: string }).id, 'API_TOKEN')
    expect([inside.length, inside === VALUE]).toEqual([VALUE.length, false])
  })
})
