import { newId } from '@sandglass/contract'
import type { HeldRequest } from '@sandglass/egress/control'
import { expect, it } from 'vitest'
import { listApprovals as listRows } from '../store/approvals.ts'
import { daemonFixture } from '../testing/daemon.fixture.ts'
import { reconcileHeld } from './held.ts'

async function heldFixture() {
  const daemon = await daemonFixture()
  const { id: sessionId, name: sessionName } = await daemon.create({ start: false })
  const held = (changes: Partial<HeldRequest> = {}): HeldRequest => ({
    ...{
      id: newId('appr_'),
      sessionId,
      sessionName,
      status: 'pending',
      method: 'GET',
      url: 'https://a.example/',
      host: 'a.example',
    },
    ...{ port: 443, scope: null, requests: 1, requestedAt: 1000, expiresAt: 2000, answeredAt: null },
    ...changes,
  })
  const { context } = daemon
  const rows = async () => (await listRows(context.store, {}, { limit: 100, offset: 0 })).rows
  return { context, held, rows }
}

it('many changes of one held request are stored as the last one', async () => {
  const { context, held, rows } = await heldFixture()
  const first = held()
  for (let requests = 1; requests <= 1000; requests++) context.held.add({ ...first, requests })
  await context.held.settled()
  const [row] = await rows()
  expect(row).toMatchObject({ id: first.id, requests: 1000, created_at: 1000 })
  expect(row?.revision).toBeLessThan(10)
})

it.each<[string, Partial<HeldRequest>]>([
  ['URL', { url: `https://a.example/${'x'.repeat(9000)}` }],
  ['host', { host: 'x'.repeat(300) }],
  ['method', { method: 'X'.repeat(100) }],
  ['id', { id: 'x'.repeat(100) }],
])('a held request with too long a %s is not stored', async (_what, changes) => {
  const { context, held, rows } = await heldFixture()
  context.held.add(held(changes))
  context.held.add(held())
  await context.held.settled()
  await reconcileHeld(context, [held(changes), held()])
  expect((await rows()).map(row => row.host)).toEqual(['a.example', 'a.example'])
})

it('after a connection, what the egress process no longer holds is expired, and what it answered meanwhile is stored', async () => {
  const { context, held, rows } = await heldFixture()
  const [kept, answered, lost] = [held(), held(), held()]
  await reconcileHeld(context, [kept, answered, lost])
  await reconcileHeld(context, [kept, { ...answered, status: 'denied', scope: 'once', answeredAt: 1500 }])
  const states = Object.fromEntries((await rows()).map(row => [row.id, row.status]))
  expect(states).toEqual({ [kept.id]: 'pending', [answered.id]: 'denied', [lost.id]: 'expired' })
})
