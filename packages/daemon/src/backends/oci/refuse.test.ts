import { expect, it } from 'vitest'
import type { MachineWishes } from '../backend.ts'
import type { Host } from './probe.ts'
import { refuseWishes } from './refuse.ts'

const wishes: MachineWishes = {
  readonlyRootfs: true,
  network: 'none',
  mounts: [],
  nestedVirt: false,
  runtime: 'gvisor',
  canPause: false,
}
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
  mayLimitProcesses: true,
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

it('a session that is to be paused when it expires needs a cgroup that freezes', async () => {
  const asked = { ...wishes, runtime: null, canPause: true }
  await expect(refuseWishes({ ...host, kind: 'crun' }, asked)).rejects.toMatchObject({
    code: 'UNSUPPORTED',
    message: expect.stringContaining('on_expiry pause: the daemon has no cgroup to freeze processes with'),
    hint: expect.stringContaining('--on-expiry stop'),
  })
})
