import { expect, it } from 'vitest'
import type { MachineSpec, Room } from '../backends/backend.ts'
import { RUNNER_PATH } from '../backends/plain-child.fixture.ts'
import { PlainChildBackend } from '../backends/plain-child.ts'
import { daemonFixture, temporaryFolder } from '../daemon.fixture.ts'

const MiB = 1024 * 1024

/** Has room for one disk. The folder of a session is there before its disk is. */
class SmallBackend extends PlainChildBackend {
  readonly folders = new Map<string, number>()
  readonly both = Promise.withResolvers<void>()
  asked = 0

  override async probe() {
    const probe = await super.probe()
    return { ...probe, unenforceable: probe.unenforceable.filter(kind => kind !== 'disk') }
  }

  async room(): Promise<Room> {
    if (++this.asked === 2) this.both.resolve()
    return { free: 1500 * MiB, promised: new Map(this.folders) }
  }

  override async start(spec: MachineSpec, signal: AbortSignal) {
    this.folders.set(spec.id, 0)
    await this.both.promise
    this.folders.set(spec.id, spec.diskMb * MiB)
    return await super.start(spec, signal)
  }
}

it('what a session was promised counts while its disk is made', async () => {
  const backend = new SmallBackend({ forTests: true, folder: await temporaryFolder(), runnerPath: RUNNER_PATH })
  const daemon = await daemonFixture({
    backends: () => [backend],
    flags: { 'backends-oci-allow-unenforced': ['cpu,memory,pids'] },
  })
  const replies = await Promise.all([1, 2].map(() => daemon.call('POST', '/v1/sessions', { disk_mb: 1024 })))
  expect(replies.map(({ status }) => status).toSorted()).toEqual([201, 503])
})
