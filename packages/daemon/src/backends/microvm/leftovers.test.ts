// What a killed daemon leaves behind, and how the next one removes it.
import { spawn } from 'node:child_process'
import { existsSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, utimesSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { afterAll, expect, it, onTestFinished } from 'vitest'
import { hostProcesses } from '../conformance/host-view.ts'
import { specOf } from '../conformance/subject.ts'
import { openMicrovm } from './backend.ts'
import { temporaryName } from './cached-files.ts'
import { removeTestMicrovm, snapshotMachine, testMicrovm } from './microvm.fixture.ts'
import { MachineGroups } from './qemu/cgroups.ts'

const starter = fileURLToPath(new URL('./starter.fixture.ts', import.meta.url))
const options = await testMicrovm()
afterAll(() => removeTestMicrovm(options))

it('the next daemon ends the machine of a snapshot whose supervisor and daemon were killed', { timeout: 240_000 }, async () => {
  // No other test has machines of this size, so there is no snapshot yet.
  const spec = specOf({ allowUnenforced: [] }, { memoryMb: 257 + (process.pid % 97) })
  const daemon = spawn(process.execPath, [starter, JSON.stringify(options), JSON.stringify(spec)], { stdio: 'ignore' })
  const next = openMicrovm(options)
  try {
    const qemu = await snapshotMachine(spec.memoryMb)
    const [id = '', key = ''] = /snapshot-[0-9a-f]{8}-([0-9a-f]{16})/.exec(qemu.argv) ?? []
    const processesOf = () => hostProcesses().filter(({ argv }) => argv.includes(id))
    const groups = () => readFileSync(`/proc/${qemu.pid}/cgroup`, 'utf8').match(new RegExp(`(?<=:)/.*-vm/${key}$`, 'gm')) ?? []
    const group = groups()[0]
    expect(group !== undefined).toBe(MachineGroups.open(options.dataDir) !== null)
    const supervisor = processesOf().find(({ argv }) => argv.includes(' supervise '))
    if (supervisor === undefined) throw new Error('the machine has no supervisor')
    // A running daemon could notice the end of the supervisor and end the machine itself.
    daemon.kill('SIGSTOP')
    process.kill(supervisor.pid, 'SIGKILL')
    daemon.kill('SIGKILL')
    const left = () => ({ daemon: daemon.signalCode, machine: processesOf().map(({ pid }) => pid) })
    await expect.poll(left, { timeout: 10_000 }).toEqual({ daemon: 'SIGKILL', machine: [qemu.pid] })

    await next.recover()
    expect(processesOf()).toEqual([])
    expect(existsSync(join(options.dataDir, 'run', `snapshot-${key}`))).toBe(false)
    for (const mount of readdirSync('/sys/fs/cgroup'))
      expect(existsSync(join('/sys/fs/cgroup', mount, group ?? 'none'))).toBe(false)
  } finally {
    daemon.kill('SIGKILL')
    await next.recover()
    await next.discard(spec.id)
  }
})

it('a daemon that shuts down aborts the snapshot that it is making', { timeout: 240_000 }, async () => {
  const spec = specOf({ allowUnenforced: [] }, { memoryMb: 400 + (process.pid % 97) })
  const backend = openMicrovm(options)
  const machine = await backend.start(spec, AbortSignal.timeout(60_000))
  onTestFinished(() => machine.destroy())
  const qemu = await snapshotMachine(spec.memoryMb)
  const group = /:(\/.*-vm\/[0-9a-f]{16})$/m.exec(readFileSync(`/proc/${qemu.pid}/cgroup`, 'utf8'))?.[1] ?? 'none'
  await backend.close?.()
  expect(hostProcesses().filter(({ pid }) => pid === qemu.pid)).toEqual([])
  expect(readdirSync(join(options.dataDir, 'run')).filter(name => name.startsWith('snapshot-'))).toEqual([])
  for (const mount of readdirSync('/sys/fs/cgroup')) expect(existsSync(join('/sys/fs/cgroup', mount, group))).toBe(false)
  expect(await machine.isRunning()).toBe(true)
})

it('the next daemon removes temporary files, except for those of running processes', async () => {
  const dataDir = mkdtempSync(join(tmpdir(), 'sandglass-temporary-'))
  const complete = ['images/disks/image-0a.sqfs', 'images/boot/0a', 'images/snapshots/0a.vm', 'disks/vm-64.qcow2']
  const [dead, living] = [999_999_999, process.ppid]
  complete.push(`images/disks/image-0c.sqfs.${living}.Ab12cd`, `images/boot/0c.${living}.new`)
  const temporary = [
    `images/disks/image-0a.sqfs.${dead}.Ab12cd`,
    `images/disks/0a-0b.sqfs.${dead}.new`,
    temporaryName('images/disks/0b-0c.sqfs'),
    `images/boot/0a.${process.pid}.new`,
    `images/snapshots/0b.vm.${dead}.new`,
    `disks/vm-64.qcow2.${dead}.new.raw`,
    `${temporaryName('disks/vm-64.qcow2')}.raw`,
    'run/snapshot-0123456789abcdef',
  ]
  for (const path of [...complete, ...temporary]) {
    mkdirSync(join(dataDir, path), { recursive: true })
    writeFileSync(join(dataDir, path, 'content'), 'x')
  }
  const backend = openMicrovm({ ...options, dataDir })
  await backend.recover()
  expect(complete.filter(path => !existsSync(join(dataDir, path)))).toEqual([])
  expect(temporary.filter(path => existsSync(join(dataDir, path)))).toEqual([])
  const own = temporaryName(join(dataDir, 'disks/vm-65.qcow2'))
  writeFileSync(own, 'x')
  await backend.recover()
  expect(existsSync(own)).toBe(true)
  rmSync(dataDir, { recursive: true })
})

it('disks of the host, snapshots and kernels are removed after a week without use', async () => {
  const dataDir = mkdtempSync(join(tmpdir(), 'sandglass-unused-'))
  const [disks, snapshots, boot] = ['disks', 'snapshots', 'boot'].map(name => join(dataDir, 'images', name)) as [
    string,
    string,
    string,
  ]
  const kernels = ['0123456789abcdef', 'fedcba9876543210'] as const
  for (const dir of [disks, snapshots, ...kernels.map(name => join(boot, name))]) mkdirSync(dir, { recursive: true })
  const file = (path: string, days: number) => {
    writeFileSync(path, '')
    const then = Date.now() / 1000 - days * 24 * 3600
    utimesSync(path, then, then)
  }
  for (const name of ['programs-0a.sqfs', 'host-0b.sqfs']) file(join(disks, name), 30)
  file(join(disks, 'host-used'), 6)
  file(join(snapshots, 'used.vm'), 6)
  file(join(snapshots, 'unused.vm'), 8)
  file(join(boot, kernels[0], 'sets'), 6)
  file(join(boot, kernels[1], 'sets'), 8)
  file(join(boot, 'tsc-of-this-host'), 8)
  const backend = openMicrovm({ ...options, dataDir })
  await backend.probe()
  await backend.pruneImages?.([], new Set())
  expect(readdirSync(disks).toSorted()).toEqual(['host-0b.sqfs', 'host-used', 'programs-0a.sqfs'])
  expect(readdirSync(snapshots)).toEqual(['used.vm'])
  expect(readdirSync(boot)).toEqual(expect.arrayContaining([kernels[0], 'tsc-of-this-host']))
  expect(readdirSync(boot)).not.toContain(kernels[1])
  file(join(disks, 'host-used'), 8)
  await backend.pruneImages?.([], new Set())
  expect(readdirSync(disks)).toEqual(['host-used'])
  rmSync(dataDir, { recursive: true })
})
