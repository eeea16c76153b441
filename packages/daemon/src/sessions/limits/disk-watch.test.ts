import { expect, it, onTestFinished } from 'vitest'
import type { DiskSpace, Machine, MachineSpec } from '../../backends/backend.ts'
import { PlainChildBackend } from '../../backends/plain-child/backend.ts'
import { RUNNER_PATH } from '../../backends/plain-child/plain-child.fixture.ts'
import { daemonFixture, temporaryFolder, until } from '../../testing/daemon.fixture.ts'
import { DiskWatch } from './disk-watch.ts'

const MORE_THAN_ANY_DISK_MB = 2 ** 40

/** Admits every session. */
class FullBackend extends PlainChildBackend {
  readonly pause: Machine['pause']

  constructor(folder: string, pause?: Machine['pause']) {
    super({ forTests: true, folder, runnerPath: RUNNER_PATH })
    this.pause = pause
  }

  async diskSpace(): Promise<DiskSpace> {
    return { total: 1, free: Number.MAX_SAFE_INTEGER, promised: new Map() }
  }

  override async start(spec: MachineSpec, signal: AbortSignal): Promise<Machine> {
    return Object.assign(await super.start(spec, signal), { pause: this.pause })
  }
}

it.each([
  ['a machine that cannot be paused', undefined],
  ['a machine that is not paused in time', () => Promise.reject(new Error('still writing'))],
])('%s is stopped when the disk is full, and its files stay', async (_, pause) => {
  const backend = new FullBackend(await temporaryFolder(), pause)
  const { context, ...daemon } = await daemonFixture({ backends: () => [backend] })
  const { id } = await daemon.create()
  const overcommit = { ...context.config.overcommit, disk_floor_mb: MORE_THAN_ANY_DISK_MB }
  const watch = new DiskWatch({ ...context, config: { ...context.config, overcommit } })
  onTestFinished(() => watch.stop())
  watch.start()
  const stopped = await until(async () => {
    const { body } = await daemon.call('GET', `/v1/sessions/${id}`)
    return (body as { status: string }).status === 'stopped' && body
  })
  expect(stopped).toMatchObject({
    reason: 'disk_pressure',
    error_message: expect.stringMatching(/the host is full.*`sandglass start /),
  })
  expect(await backend.sessionIds()).toEqual([id])
})
