import { mkdir, open, statfs } from 'node:fs/promises'
import { join } from 'node:path'
import { expect, it } from 'vitest'
import { PromisedSpace } from '../backends/disk/promised-space.ts'
import { diskThresholds, NO_OVERCOMMIT } from '../data-dir/disk-policy.ts'
import { daemonFixture, plainChild, temporaryFolder } from '../testing/daemon.fixture.ts'
import { reserveBytes } from './context.ts'

const MiB = 1024 * 1024

it('the reserved space counts a session once, also if several backends report it', async () => {
  const sessions = await temporaryFolder()
  await mkdir(join(sessions, 'a'))
  await using disk = await open(join(sessions, 'a', 'disk.ext4'), 'w')
  await disk.truncate(1024 * MiB)
  const backend = () => Object.assign(plainChild(sessions), { diskSpace: () => new PromisedSpace(sessions).read() })
  const { context } = await daemonFixture({ flags: { 'backends-oci-allow-unenforced': ['cpu,memory,pids'] } })
  const backends = new Map(['oci', 'microvm'].map(name => [name, backend()]))
  const { blocks, bsize } = await statfs(context.dataDir)
  expect(await reserveBytes({ ...context, backends })).toBe(diskThresholds(NO_OVERCOMMIT, blocks * bsize).pause + 128 * MiB)
})
