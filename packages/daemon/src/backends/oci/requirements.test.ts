import { expect, it } from 'vitest'
import type { MachineRequirements } from '../backend.ts'
import type { Host } from './probe.ts'
import { checkRequirements } from './requirements.ts'

const requirements: MachineRequirements = {
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
  startsInCgroups: true,
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

it('runsc requires a daemon that is root and has cgroups', async () => {
  await expect(checkRequirements(host, requirements)).rejects.toMatchObject({
    code: 'UNSUPPORTED',
    message: expect.stringContaining('runsc cannot be used by an ordinary user'),
  })
  await expect(checkRequirements({ ...host, rootless: false }, requirements)).rejects.toMatchObject({
    message: expect.stringContaining('runsc cannot be used without cgroups'),
  })
  await checkRequirements({ ...host, kind: 'crun' }, requirements)
})

it('a session that pauses on expiry requires a cgroup freezer', async () => {
  const asked = { ...requirements, runtime: null, canPause: true }
  await expect(checkRequirements({ ...host, kind: 'crun' }, asked)).rejects.toMatchObject({
    code: 'UNSUPPORTED',
    message: expect.stringContaining('on_expiry pause: the daemon has no cgroup to freeze processes with'),
    hint: expect.stringContaining('--on-expiry stop'),
  })
})
