import { describe, expect, it } from 'vitest'
import type { MachineLimits } from '../../backends/backend.ts'
import { daemonFixture, plainChild, type TestDaemon } from '../../testing/daemon.fixture.ts'

const resize = (daemon: TestDaemon, limits: object) => daemon.call('POST', '/v1/sessions/demo/resize', limits)
const shown = async (daemon: TestDaemon) => (await daemon.call('GET', '/v1/sessions/demo')).body

/** A daemon whose machines take limits, or fail at that. */
async function resizable(take: (limits: MachineLimits) => void): Promise<TestDaemon> {
  const daemon = await daemonFixture({
    backends: folder => {
      const backend = plainChild(folder)
      const start = backend.start.bind(backend)
      backend.start = async (...args) =>
        Object.assign(await start(...args), { resize: async (limits: MachineLimits) => take(limits) })
      return [backend]
    },
  })
  await daemon.create({ name: 'demo', memory_mb: 512 })
  return daemon
}

describe('resize', () => {
  it('is refused while a machine with fixed limits runs, and accepted once it is stopped', async () => {
    const daemon = await daemonFixture()
    await daemon.create({ name: 'demo', persist: true })
    expect((await resize(daemon, { memory_mb: 1024 })).body).toMatchObject({
      error: { code: 'UNSUPPORTED', hint: '`sandglass stop demo`, resize it, and start it again' },
    })
    await daemon.call('POST', '/v1/sessions/demo/stop')
    expect((await resize(daemon, { memory_mb: 1024, cpu_cores: 2 })).body).toMatchObject({ memory_mb: 1024, cpu_cores: 2 })
    expect((await daemon.call('POST', '/v1/sessions/demo/start')).body).toMatchObject({ status: 'running', memory_mb: 1024 })
  })

  it('sets all limits of the machine, the unchanged ones too', async () => {
    const taken: MachineLimits[] = []
    const daemon = await resizable(limits => void taken.push(limits))
    expect((await resize(daemon, { pids_limit: 128 })).body).toMatchObject({ pids_limit: 128, memory_mb: 512 })
    expect(taken).toEqual([{ cpuCores: 0.5, memoryMb: 512, pidsLimit: 128 }])
  })

  it('that the machine refuses leaves the limits of session and machine unchanged', async () => {
    const taken: number[] = []
    const daemon = await resizable(({ memoryMb }) => {
      taken.push(memoryMb)
      if (memoryMb > 512) throw new Error('limit memory.max is 512 after 1024 was written')
    })
    expect((await resize(daemon, { memory_mb: 1024 })).body).toMatchObject({
      error: { code: 'RESIZE_FAILED', message: expect.stringContaining('is 512 after 1024 was written') },
    })
    expect(taken).toEqual([1024, 512])
    expect(await shown(daemon)).toMatchObject({ memory_mb: 512 })
    expect(daemon.context.live.get('demo')?.record.resizing).toBe(null)
  })

  it('of an ended session is refused', async () => {
    const daemon = await daemonFixture()
    await daemon.create({ name: 'demo' })
    await daemon.call('DELETE', '/v1/sessions/demo')
    expect((await resize(daemon, { memory_mb: 1024 })).body).toMatchObject({ error: { code: 'WRONG_STATE' } })
  })
})
