import { expect, it } from 'vitest'
import type { MachineWishes } from '../backend.ts'
import type { Host } from './probe.ts'
import { refuseWishes } from './refuse.ts'

const wishes: MachineWishes = { readonlyRootfs: true, network: 'none', mounts: [], nestedVirt: false, runtime: 'gvisor' }
const host: Host = {
  runtime: '/usr/local/bin/runsc',
  kind: 'runsc',
  bornInGroups: true,
  hiddenMounts: [],
  rootless: true,
  pool: { slots: 1, ranges: () => [] },
  cgroups: null,
  mkfs: null,
  privateLayers: true,
  noWritableRoot: 'a writable root filesystem needs root',
  openFiles: 1024,
  processes: 1024,
  stage: '/mnt',
}

it('runsc is for a daemon that is root and has cgroups', async () => {
  await expect(refuseWishes(host, wishes)).rejects.toMatchObject({
    code: 'UNSUPPORTED',
    message: expect.stringContaining('runsc cannot be used by an ordinary user'),
  })
  await expect(refuseWishes({ ...host, rootless: false }, wishes)).rejects.toMatchObject({
    message: expect.stringContaining('runsc cannot be used without cgroups'),
  })
  await refuseWishes({ ...host, kind: 'crun' }, wishes)
})
