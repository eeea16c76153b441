import type { Approval } from '@sandglass/contract'
import { describe, expect, it } from 'vitest'
import { type TestDaemon, until } from '../testing/daemon.fixture.ts'
import { API, egressDaemonFixture, OTHER } from '../testing/egress-daemon.fixture.ts'

const list = async (daemon: TestDaemon, query = '') =>
  (await daemon.call('GET', `/v1/approvals${query}`)).body as { items: Approval[]; total: number }
const pending = (daemon: TestDaemon) => until(async () => (await list(daemon, '?status=pending')).items[0])
const answer = (daemon: TestDaemon, verb: 'allow' | 'deny', id: string, body: object = {}) =>
  daemon.call('POST', `/v1/approvals/${id}/${verb}`, body)

async function askingFixture(policies: string[] = [], approval_seconds = 60) {
  const fixture = await egressDaemonFixture({ approval_seconds })
  const { daemon } = fixture
  for (const name of policies) await daemon.call('PUT', `/v1/policies/${name}`, {})
  const { id, name } = await daemon.create({ network: 'allowlist', policies, policy_mode: 'ask' })
  return { ...fixture, id, name }
}

describe('a request outside the policy', () => {
  it('waits until a person allows it, once', async () => {
    const { daemon, send, id, name } = await askingFixture()
    const sent = send(id, `http://${API}/a?secret=1`)
    const held = await pending(daemon)
    expect(held).toMatchObject({
      session_id: id,
      session_name: name,
      method: 'GET',
      url: `http://${API}/a`,
      host: API,
      port: 80,
      requests: 1,
    })
    expect((await answer(daemon, 'allow', held.id)).body).toMatchObject({
      status: 'allowed',
      scope: 'once',
      answered_at: expect.any(String),
    })
    expect(await sent).toBe('200')
    expect((await answer(daemon, 'deny', held.id)).body).toMatchObject({ error: { code: 'APPROVAL_ANSWERED' } })
    const again = send(id, `http://${API}/a`)
    const next = await pending(daemon)
    expect((await answer(daemon, 'deny', next.id, { scope: 'session' })).body).toMatchObject({
      status: 'denied',
      scope: 'session',
    })
    expect([await again, await send(id, `http://${API}/b`)]).toEqual(['403', '403'])
    expect((await list(daemon, `?session=${id}`)).items.map(({ status }) => status)).toEqual(['denied', 'allowed'])
    expect((await list(daemon, '?status=allowed')).total).toBe(1)
  })

  it('is allowed for the session, and later requests to the host do not wait', async () => {
    const { daemon, send, id } = await askingFixture()
    const sent = send(id, `http://${API}/a`)
    await answer(daemon, 'allow', (await pending(daemon)).id, { scope: 'session' })
    expect([await sent, await send(id, `http://${API}/b`)]).toEqual(['200', '200'])
  })

  it('is allowed in the policy, which then has the rule and reaches other sessions', async () => {
    const { daemon, send, id } = await askingFixture(['mine'])
    const other = await daemon.create({ policies: ['mine', 'npm'] })
    expect(await send(other.id, `http://${API}/`)).toBe('403')
    const sent = send(id, `http://${API}/a`)
    await answer(daemon, 'allow', (await pending(daemon)).id, { scope: 'policy' })
    expect(await sent).toBe('200')
    expect((await daemon.call('GET', '/v1/policies/mine')).body).toMatchObject({ policy: { domains: [API] } })
    expect(await send(other.id, `http://${API}/`)).toBe('200')
  })

  it('needs the name of the policy if the session has several or none, and it must be one of them', async () => {
    const { daemon, send, id } = await askingFixture(['one', 'two'])
    await daemon.call('PUT', '/v1/policies/three', {})
    const sent = send(id, `http://${API}/a`)
    const held = await pending(daemon)
    const refused = async (body: object) => (await answer(daemon, 'allow', held.id, { scope: 'policy', ...body })).body
    expect(await refused({})).toMatchObject({ error: { message: expect.stringContaining('several policies (one, two)') } })
    expect(await refused({ policy: 'three' })).toMatchObject({ error: { message: expect.stringContaining('does not use') } })
    expect((await answer(daemon, 'deny', held.id, { scope: 'policy' })).body).toMatchObject({
      error: { code: 'INVALID_REQUEST' },
    })
    await answer(daemon, 'allow', held.id, { scope: 'policy', policy: 'two' })
    expect(await sent).toBe('200')
    expect((await daemon.call('GET', '/v1/policies/two')).body).toMatchObject({ policy: { domains: [API] } })
  })

  it('is refused when nobody answers in time', async () => {
    const { daemon, send, id } = await askingFixture([], 1)
    expect(await send(id, `http://${API}/a`)).toBe('403')
    await until(async () => (await list(daemon, '?status=expired')).total === 1)
    const [held] = (await list(daemon)).items
    expect((await answer(daemon, 'allow', held?.id ?? '')).body).toMatchObject({ error: { code: 'APPROVAL_ANSWERED' } })
    expect((await answer(daemon, 'allow', 'appr_0123456789abcdef')).body).toMatchObject({ error: { code: 'APPROVAL_NOT_FOUND' } })
  })

  it('still waits after a restart of the daemon, and is expired when the egress process was killed', async () => {
    const fixture = await askingFixture()
    // A process of the session goes on while no daemon runs; the command of an exec would be interrupted.
    await fixture.daemon.call('POST', `/v1/sessions/${fixture.id}/processes`, {
      argv: ['curl', '-s', '-x', 'http://127.0.0.53:3128', `http://${API}/kept`],
    })
    const held = await pending(fixture.daemon)
    const daemon = await fixture.restart()
    expect((await list(daemon, '?status=pending')).items).toMatchObject([{ id: held.id }])
    await until(() => daemon.context.egress.supervisor.isConnected)
    process.kill((await daemon.context.egress.supervisor.ensure()).hello.pid, 'SIGKILL')
    await until(async () => (await list(daemon, '?status=expired')).items.some(item => item.id === held.id))
    expect((await list(daemon, '?status=pending')).total).toBe(0)
  })
})

it('approvals are followed, those that wait first, and from where a client was', async () => {
  const { daemon, send, id } = await askingFixture()
  const first = send(id, `http://${API}/1`)
  const held = await pending(daemon)
  const follow = async (count: number, headers = {}) => {
    const response = await daemon.fetch('/v1/approvals/events', { headers })
    const seen: { id: string; status: string; event: number }[] = []
    let text = ''
    for await (const chunk of response.body ?? []) {
      text += Buffer.from(chunk).toString()
      const blocks = text.split('\n\n')
      text = blocks.pop() ?? ''
      for (const block of blocks) {
        const data = /^data: (.*)$/m.exec(block)?.[1]
        if (data) seen.push({ ...(JSON.parse(data) as Approval), event: Number(/^id: (\d+)$/m.exec(block)?.[1]) })
      }
      if (seen.length >= count) break
    }
    return seen.map(({ id: approval, status, event }) => ({ approval, status, event }))
  }
  const following = follow(2)
  await until(async () => (await follow(1)).length === 1)
  await answer(daemon, 'allow', held.id)
  const [waiting, allowed] = await following
  expect([waiting, allowed]).toMatchObject([
    { approval: held.id, status: 'pending' },
    { approval: held.id, status: 'allowed' },
  ])
  expect(await first).toBe('200')
  const second = send(id, `http://${OTHER}/2`)
  const [next] = await follow(1, { 'last-event-id': String(allowed?.event) })
  expect(next).toMatchObject({ status: 'pending' })
  expect(next?.approval).not.toBe(held.id)
  await answer(daemon, 'deny', next?.approval ?? '')
  expect(await second).toBe('403')
})
