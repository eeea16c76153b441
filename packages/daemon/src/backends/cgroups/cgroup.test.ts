import { existsSync, readFileSync } from 'node:fs'
import { expect, it } from 'vitest'
import { cgroupOfProcess, machineCgroup, readCgroupFile } from './cgroup.ts'
import { readLayout } from './layout.ts'

const layout = readLayout(readFileSync('/proc/self/mountinfo', 'utf8'), existsSync)

it.runIf(layout !== null)('the cgroup of a process lists that process', async () => {
  const cgroup = await cgroupOfProcess(process.pid)
  expect(cgroup.version).toBe(layout?.version)
  expect(Object.keys(cgroup.dirs).toSorted()).toEqual(Object.keys(layout?.roots ?? {}).toSorted())
  expect((await readCgroupFile(cgroup, 'memory', 'cgroup.procs')).split('\n')).toContain(String(process.pid))
})

it('the cgroup of a process that is gone cannot be read', async () => {
  await expect(cgroupOfProcess(2 ** 22 + 1)).rejects.toMatchObject({ code: 'ENOENT' })
})

it('the cgroup of a machine has a directory per controller, and files that do not exist read as empty', async () => {
  const roots = { cpu: '/cgroup/cpu', memory: '/cgroup/memory' }
  const machine = machineCgroup({ ...NO_LAYOUT, roots }, 'sandglass-x', '0123456789abcdef')
  expect(machine?.dirs).toEqual({
    cpu: '/cgroup/cpu/sandglass-x/0123456789abcdef',
    memory: '/cgroup/memory/sandglass-x/0123456789abcdef',
  })
  expect(machine && (await readCgroupFile(machine, 'memory', 'memory.stat'))).toBe('')
  expect(machine && (await readCgroupFile(machine, 'pids', 'pids.max'))).toBe('')
  expect(machineCgroup(null, 'sandglass-x', '0123456789abcdef')).toBeNull()
})

const NO_LAYOUT = { version: 1, others: [], prefix: '', daemon: '', unified: null, countsSwap: false } as const
