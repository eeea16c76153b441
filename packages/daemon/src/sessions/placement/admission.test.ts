import { expect, it } from 'vitest'
import type { DiskSpace, MachineRoot, MachineSpec } from '../../backends/backend.ts'
import { PlainChildBackend } from '../../backends/plain-child/backend.ts'
import { RUNNER_PATH } from '../../backends/plain-child/plain-child.fixture.ts'
import { daemonFixture, temporaryFolder } from '../../testing/daemon.fixture.ts'

const MiB = 1024 * 1024

/** Has room for one disk. The folder of a session is there before its disk is. Each of two asks when it comes, and when its image is ready. */
class SmallBackend extends PlainChildBackend {
  readonly folders = new Map<string, number>()
  readonly bothCame = Promise.withResolvers<void>()
  readonly bothAsked = Promise.withResolvers<void>()
  asked = 0
  prepared = 0

  override async probe() {
    const probe = await super.probe()
    return { ...probe, unenforceable: probe.unenforceable.filter(kind => kind !== 'disk') }
  }

  async diskSpace(): Promise<DiskSpace> {
    this.asked += 1
    if (this.asked === 2) this.bothCame.resolve()
    if (this.asked === 4) this.bothAsked.resolve()
    return { total: 1500 * MiB, free: 1500 * MiB, promised: new Map(this.folders) }
  }

  override async prepare(root: MachineRoot) {
    this.prepared += 1
    await this.bothCame.promise
    await super.prepare(root)
  }

  override async start(spec: MachineSpec, signal: AbortSignal) {
    this.folders.set(spec.id, 0)
    await this.bothAsked.promise
    this.folders.set(spec.id, spec.diskMb * MiB)
    return await super.start(spec, signal)
  }
}

async function smallDaemon() {
  const backend = new SmallBackend({ forTests: true, folder: await temporaryFolder(), runnerPath: RUNNER_PATH })
  const flags = { 'backends-oci-allow-unenforced': ['cpu,memory,pids'], 'overcommit-disk': ['1'] }
  return { backend, daemon: await daemonFixture({ backends: () => [backend], flags }) }
}

it('the disk space of a session is reserved while its disk is being created', async () => {
  const { daemon } = await smallDaemon()
  const replies = await Promise.all([1, 2].map(() => daemon.call('POST', '/v1/sessions', { disk_mb: 1024 })))
  expect(replies.map(({ status }) => status).toSorted()).toEqual([201, 503])
})

it('a session that does not fit on the disk is refused before its image is prepared, unless it is created without start', async () => {
  const { backend, daemon } = await smallDaemon()
  backend.bothCame.resolve()
  const refused = await daemon.call('POST', '/v1/sessions', { disk_mb: 2048 })
  expect(refused).toMatchObject({ status: 503, body: { error: { code: 'HOST_FULL' } } })
  expect(backend.prepared).toBe(0)
  expect((await daemon.call('POST', '/v1/sessions', { disk_mb: 2048, start: false })).status).toBe(201)
})

it('with overcommit.disk more space is promised than is free, and the refusal says how much is needed', async () => {
  const backend = new SmallBackend({ forTests: true, folder: await temporaryFolder(), runnerPath: RUNNER_PATH })
  const flags = { 'backends-oci-allow-unenforced': ['cpu,memory,pids'] }
  const daemon = await daemonFixture({ backends: () => [backend], flags })
  backend.bothCame.resolve()
  backend.bothAsked.resolve()
  for (let i = 0; i < 5; i++) await daemon.create({ disk_mb: 2048 })
  const refused = await daemon.call('POST', '/v1/sessions', { disk_mb: 2048 })
  expect(refused).toMatchObject({
    status: 503,
    body: { error: { code: 'HOST_FULL', message: expect.stringContaining('with overcommit.disk 8') } },
  })
})
