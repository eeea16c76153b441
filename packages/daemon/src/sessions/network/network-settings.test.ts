import { describe, expect, it } from 'vitest'
import { daemonFixture, type TestDaemon } from '../../testing/daemon.fixture.ts'
import { egressDaemonFixture } from '../../testing/egress-daemon.fixture.ts'

const stopped = (daemon: TestDaemon, spec: object) => daemon.call('POST', '/v1/sessions', { start: false, ...spec })

describe('the network of a session', () => {
  it.each<[object, string]>([
    [{}, 'none'],
    [{ policies: [] }, 'none'],
    [{ policies: ['npm'] }, 'allowlist'],
    [{ policy_mode: 'observe' }, 'allowlist'],
    [{ network: 'nat' }, 'nat'],
    [{ network: 'nat', policies: ['npm'] }, 'nat'],
    [{ network: 'allowlist' }, 'allowlist'],
  ])('of %j is %s', async (spec, network) => {
    const daemon = await daemonFixture()
    expect((await stopped(daemon, spec)).body).toMatchObject({ network })
  })

  it('is the configured one unless the request says otherwise', async () => {
    const daemon = await daemonFixture({ flags: { 'defaults-network': ['nat'] } })
    expect((await stopped(daemon, {})).body).toMatchObject({ network: 'nat', policies: [], policy_mode: null, warnings: [] })
    expect((await stopped(daemon, { policies: ['npm'], policy_mode: 'ask' })).body).toMatchObject({
      network: 'nat',
      policies: ['npm'],
      policy_mode: 'ask',
    })
    expect((await stopped(daemon, { network: 'none' })).body).toMatchObject({ network: 'none' })
  })

  it.each<[object, object]>([
    [
      { network: 'none', policies: ['npm'] },
      { code: 'INVALID_REQUEST', message: 'network: none has no policies, but policies is given' },
    ],
    [{ network: 'bridge', policies: ['npm'] }, { code: 'INVALID_REQUEST' }],
    [{ network: 'none', policy_mode: 'ask' }, { code: 'INVALID_REQUEST' }],
    [{ policies: ['unknown'] }, { code: 'POLICY_NOT_FOUND' }],
    [{ secrets: ['unknown'] }, { code: 'SECRET_NOT_FOUND' }],
    [{ secrets: ['unscoped'] }, { code: 'SECRET_UNSCOPED' }],
  ])('of %j is refused', async (spec, error) => {
    const daemon = await daemonFixture()
    await daemon.call('PUT', '/v1/secrets/unscoped', { value: 'x'.repeat(20) })
    const refused = await stopped(daemon, spec)
    expect(refused.body).toMatchObject({ error })
    expect((await daemon.call('GET', '/v1/sessions?all=true')).body).toMatchObject({ total: 0 })
  })

  it('that has no policies takes them only when it starts again', async () => {
    const { daemon } = await egressDaemonFixture()
    const { id, name } = await daemon.create()
    const change = (body: object) => daemon.call('PUT', `/v1/sessions/${id}/policies`, body)
    expect((await change({ policies: ['npm'] })).body).toMatchObject({
      error: { code: 'NETWORK_FIXED', message: expect.stringContaining(name) },
    })
    await daemon.call('POST', `/v1/sessions/${id}/stop`)
    expect((await change({ policies: ['npm'] })).body).toMatchObject({ network: 'allowlist', policies: ['npm'] })
    const started = await daemon.call('POST', `/v1/sessions/${id}/start`, { policy_mode: 'observe' })
    expect(started.body).toMatchObject({ status: 'running', network: 'allowlist', policies: ['npm'], policy_mode: 'observe' })
    expect((await change({ policy_mode: null })).body).toMatchObject({ policy_mode: null, policies: ['npm'] })
    expect((await change({ policies: ['unknown'] })).body).toMatchObject({ error: { code: 'POLICY_NOT_FOUND' } })
    expect((await daemon.call('DELETE', '/v1/policies/npm')).body).toMatchObject({ error: { code: 'POLICY_BUILT_IN' } })
    await daemon.call('POST', `/v1/sessions/${id}/stop`)
    const plain = await daemon.call('POST', `/v1/sessions/${id}/start`, { network: 'none' })
    expect(plain.body).toMatchObject({ network: 'none', policies: [], policy_mode: null })
    await daemon.call('POST', `/v1/sessions/${id}/terminate`)
    expect((await change({ policies: [] })).body).toMatchObject({ error: { code: 'WRONG_STATE' } })
  })
})
