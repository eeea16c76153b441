import { describe, expect, it } from 'vitest'
import { daemonFixture, until } from '../../testing/daemon.fixture.ts'
import type { LiveSession } from '../live.ts'
import { holdForExec } from './exec-hold.ts'

async function session() {
  const daemon = await daemonFixture()
  const { id } = await daemon.create()
  return { context: daemon.context, live: daemon.context.live.get(id) as LiveSession }
}

describe('a command', () => {
  it('whose reply never comes holds the lease until its timeout and no longer', async () => {
    const { context, live } = await session()
    const { release } = holdForExec(context, live, 30, 0)
    expect(live.holds).toBe(1)
    await until(() => live.holds === 0)
    release()
    expect(live.holds).toBe(0)
  })

  it('without a timeout holds the lease until it is over, or until the grace after it was cancelled', async () => {
    const { context, live } = await session()
    const first = holdForExec(context, live, null, 0)
    const second = holdForExec(context, live, null, 0)
    first.cancelled()
    await until(() => live.holds === 1)
    second.release()
    expect(live.holds).toBe(0)
  })

  it('that ends releases the lease once', async () => {
    const { context, live } = await session()
    const { release } = holdForExec(context, live, 600_000)
    release()
    release()
    expect(live.holds).toBe(0)
  })
})
