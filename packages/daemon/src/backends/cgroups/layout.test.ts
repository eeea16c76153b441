import { describe, expect, it } from 'vitest'
import { groupsOf, leftGroups, missingControllers, readLayout } from './layout.ts'

const HYBRID = `
30 25 0:26 / /sys/fs/cgroup rw shared:9 - tmpfs tmpfs rw
31 30 0:27 / /sys/fs/cgroup/unified rw shared:10 - cgroup2 cgroup2 rw
33 30 0:29 / /sys/fs/cgroup/cpu,cpuacct rw shared:12 - cgroup cgroup rw,cpu,cpuacct
34 30 0:30 / /sys/fs/cgroup/memory rw shared:13 - cgroup cgroup rw,memory
35 30 0:31 / /sys/fs/cgroup/pids rw shared:14 - cgroup cgroup rw,pids
36 30 0:32 / /sys/fs/cgroup/freezer rw shared:15 - cgroup cgroup rw,freezer
37 30 0:33 / /sys/fs/cgroup/cpuset rw shared:16 - cgroup cgroup rw,cpuset`
const UNIFIED = '31 30 0:27 / /sys/fs/cgroup rw shared:10 - cgroup2 cgroup2 rw'
const GROUP = '0123456789abcdef'
const LIMITS = { cpuCores: 0.5, memoryMb: 512, pidsLimit: 256 }

describe('cgroups', () => {
  it('a machine on a hybrid host has one cgroup per hierarchy, with memory and swap limited together', () => {
    const layout = readLayout(HYBRID, () => true)
    if (layout === null) throw new Error('no layout')
    expect(layout).toMatchObject({ version: 1, unified: '/sys/fs/cgroup/unified' })
    expect(missingControllers(layout)).toEqual([])
    const groups = groupsOf(layout, 'sandglass-x', GROUP, LIMITS, true)
    expect(groups.map(group => group.dir)).toEqual(
      ['cpu,cpuacct', 'memory', 'pids', 'freezer'].map(name => `/sys/fs/cgroup/${name}/sandglass-x/${GROUP}`),
    )
    expect(groups.flatMap(group => group.settings.map(({ file, value }) => `${file} ${value}`))).toEqual([
      'cpu.cfs_period_us 100000',
      'cpu.cfs_quota_us 50000',
      'memory.limit_in_bytes 536870912',
      'memory.memsw.limit_in_bytes 536870912',
      'pids.max 288',
    ])
    expect(leftGroups(layout, 'sandglass-x', GROUP).map(group => group.dir)).toContain(
      `/sys/fs/cgroup/cpuset/sandglass-x/${GROUP}`,
    )
  })

  it('a machine on a unified host has one cgroup, without swap, and controllers are enabled in its parent', () => {
    const layout = readLayout(UNIFIED, () => true)
    if (layout === null) throw new Error('no layout')
    const [group, ...others] = groupsOf(layout, 'sandglass-x', GROUP, LIMITS, true)
    expect(others).toEqual([])
    expect(group).toMatchObject({
      dir: `/sys/fs/cgroup/sandglass-x/${GROUP}`,
      enable: '+cpu +memory +pids',
      thaw: { file: 'cgroup.freeze', value: '0' },
    })
    expect(group?.settings.map(({ file, value }) => `${file} ${value}`)).toEqual([
      'cpu.max 50000 100000',
      'memory.max 536870912',
      'memory.swap.max 0',
      'pids.max 288',
    ])
  })

  it('without a cgroup mount no limit can be enforced', () => {
    expect(readLayout('25 1 0:2 / / rw - ext4 /dev/vda rw', () => true)).toBeNull()
    expect(missingControllers(null)).toEqual(['cpu', 'memory', 'pids'])
  })

  it('a name that is not the name of a machine’s cgroup is refused, because everything in a cgroup is killed with it', () => {
    const layout = readLayout(UNIFIED, () => true)
    if (layout === null) throw new Error('no layout')
    for (const name of ['', '..', '../x', 'sess_0123456789abcdef', `${GROUP}/..`]) {
      expect(() => groupsOf(layout, 'sandglass-x', name, LIMITS, true)).toThrow('not the name')
    }
  })
})
