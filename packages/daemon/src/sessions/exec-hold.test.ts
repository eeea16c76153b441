import { describe, expect, it } from 'vitest'
import { daemonFixture, until } from '../daemon.fixture.ts'
import { holdForExec } from './exec-hold.ts'
import type { LiveSession } from './live.ts'

async function session() {
  const daemon = await daemonFixture()
  const { id } = await daemon.create()
  return { world: daemon.world, live: daemon.world.live.get(id) as LiveSession }
}

describe('a command', () => {
  it('whose reply never comes holds the lease for its own time and no longer', async () => {
    const { world, live } = await session()
    const release = holdForExec(world, live, { shell: 'main', timeout_ms: 30 }, 0)
    expect(live.holds).toBe(1)
    await until(() => live.holds === 0)
    release()
    expect([live.holds, live.execMs.size]).toEqual([0, 0])
  })

  it('that waits behind others in its shell holds the lease for their time too', async () => {
    const { world, live } = await session()
    const first = holdForExec(world, live, { shell: 'main', timeout_ms: 600_000 }, 0)
    holdForExec(world, live, { shell: 'main', timeout_ms: 1 }, 0)
    holdForExec(world, live, { shell: 'other', timeout_ms: 1 }, 0)
    await until(() => live.holds === 2)
    expect([live.execMs.get('main'), live.execMs.get('other')]).toEqual([600_001, 1])
    first()
    expect(live.holds).toBe(1)
  })

  it('that ends gives back what it held', async () => {
    const { world, live } = await session()
    const release = holdForExec(world, live, { shell: 'main', timeout_ms: 600_000 })
    release()
    release()
    expect([live.holds, live.execMs.size]).toEqual([0, 0])
  })
})
