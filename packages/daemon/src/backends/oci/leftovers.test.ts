// Leftovers: lost records, killed launchers and runtimes, a removed runtime, old files.
import { existsSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { describe, expect, it, onTestFinished } from 'vitest'
import { lostGroups, usableCgroups } from '../cgroups/delegation.ts'
import { parentName } from '../cgroups/layout.ts'
import { hostProcesses, traces } from '../conformance/host-view.ts'
import { boxOf, specOf } from '../conformance/subject.ts'
import { ociDataDir, openTestOci } from './oci.fixture.ts'
import type { MachineRecord } from './record.ts'
import { SPARE_DISK } from './rootfs/disks.ts'
import { pruneOldFolders } from './rootfs/root-images.ts'

const runnerPath = fileURLToPath(new URL('../../../../../runner/bin/runner', import.meta.url))
const dataDir = ociDataDir()
const subject = { open: () => openTestOci({ dataDir, runtime: 'auto', runnerPath }), starter: [], allowUnenforced: [] }
const lose = (id: string) => {
  for (const folder of ['sessions', 'run/oci']) rmSync(join(dataDir, folder, id), { recursive: true, force: true })
}
/** False for a process that has ended meanwhile: those of other tests come and go. */
const inGroup = (pid: number, group: string) => {
  try {
    return readFileSync(`/proc/${pid}/cgroup`, 'utf8').includes(group)
  } catch {
    return false
  }
}
const never = (): never => {
  throw new Error('not found')
}
const start = async () => await (await subject.open()).start(specOf(subject), AbortSignal.timeout(20_000))

describe('a machine whose records are lost', () => {
  it('is ended by the next daemon', async () => {
    const lost = await start()
    const damaged = await start()
    lose(lost.id)
    writeFileSync(join(dataDir, 'sessions', damaged.id, 'config.json'), '{"version":1,')
    const kept = await start()
    const next = await subject.open()
    expect(await lost.isRunning()).toBe(false)
    expect(await damaged.isRunning()).toBe(false)
    expect((await next.recover()).map(({ id }) => id)).toEqual([kept.id])
    expect(traces(lost.id)).toEqual([])
    await next.discard(damaged.id)
    await next.discard(kept.id)
  })

  it('is ended by discard', async () => {
    const backend = await subject.open()
    const [lost, kept] = [await start(), await start()]
    lose(lost.id)
    await backend.discard(lost.id)
    expect(await lost.isRunning()).toBe(false)
    expect(await kept.isRunning()).toBe(true)
    await kept.destroy()
  })
})

describe.runIf(usableCgroups(true, 'sandglass-test-trial') !== null)('a launcher that is killed while it waits', () => {
  it('leaves nothing behind, and other machines keep running and starting', async () => {
    const own = mkdtempSync(join(dataDir, 'own-'))
    const backend = await openTestOci({ dataDir: own, runtime: 'auto', runnerPath })
    onTestFinished(async () => {
      for (const id of await backend.sessionIds()) await backend.discard(id)
    })
    const machine = await backend.start(specOf(subject), AbortSignal.timeout(20_000))
    const groups = () => lostGroups(usableCgroups(true, 'sandglass-test-trial') ?? never(), parentName(own), new Set())
    const spares = () => readdirSync(join(own, 'disks')).filter(name => name.startsWith(SPARE_DISK))
    // Two cgroups and one spare disk: the machine runs, and the waiting launcher is prepared.
    await expect.poll(() => [groups().length, spares().length]).toEqual([2, 1])
    const [spare = ''] = spares()
    const waiting = groups().find(group => spare.includes(group)) ?? never()
    const launchers = hostProcesses().filter(({ argv }) => argv.startsWith(own) && argv.endsWith(' oci '))
    const { pid } = launchers.find(launcher => inGroup(launcher.pid, waiting)) ?? never()
    process.kill(pid, 'SIGKILL')
    await expect.poll(() => existsSync(`/proc/${pid}`), { interval: 1 }).toBe(false)
    const others = Promise.all([1, 2].map(() => backend.start(specOf(subject), AbortSignal.timeout(20_000))))
    await expect.poll(() => [...groups(), ...spares()].filter(name => name.includes(waiting))).toEqual([])
    for (const running of [machine, ...(await others)]) expect(await running.isRunning()).toBe(true)
  })
})

describe.runIf(usableCgroups(true, 'sandglass-test-trial') !== null)('a closed backend', () => {
  it('has no launcher, cgroup or spare disk left, and can still start and discard machines', async () => {
    const own = mkdtempSync(join(dataDir, 'own-'))
    const backend = await openTestOci({ dataDir: own, runtime: 'auto', runnerPath })
    const groups = () => lostGroups(usableCgroups(true, 'sandglass-test-trial') ?? never(), parentName(own), new Set())
    const spares = () => readdirSync(join(own, 'disks')).filter(name => name.startsWith(SPARE_DISK))
    const launchers = () => hostProcesses().filter(({ argv }) => argv.startsWith(own))
    await expect.poll(spares).toHaveLength(1)
    expect(launchers()).not.toEqual([])
    await backend.close?.()
    expect([groups(), spares(), launchers()]).toEqual([[], [], []])
    const machine = await backend.start(specOf(subject), AbortSignal.timeout(20_000))
    expect(await machine.isRunning()).toBe(true)
    await backend.discard(machine.id)
    expect([groups(), spares(), launchers()]).toEqual([[], [], []])
  })
})

describe.runIf(usableCgroups(true, 'sandglass-test-trial') !== null)('a runtime that is killed', () => {
  /** The runtime that waits for the next start. Its launcher is prepared once its spare disk exists. */
  async function waitingRuntime(own: string): Promise<number> {
    const spares = () => readdirSync(join(own, 'disks')).filter(name => name.startsWith(SPARE_DISK))
    await expect.poll(spares).toHaveLength(1)
    const group = /[0-9a-f]{16}/.exec(spares()[0] ?? '')?.[0] ?? never()
    const found = () => hostProcesses().find(({ pid, argv }) => argv.includes(' run --detach ') && inGroup(pid, group))?.pid
    await expect.poll(found).toBeGreaterThan(0)
    return found() ?? never()
  }

  it('while it waits or during a start does not make the start fail', async () => {
    const own = mkdtempSync(join(dataDir, 'own-'))
    const backend = await openTestOci({ dataDir: own, runtime: 'auto', runnerPath })
    onTestFinished(async () => {
      for (const id of await backend.sessionIds()) await backend.discard(id)
    })
    await backend.start(specOf(subject), AbortSignal.timeout(20_000))
    process.kill(await waitingRuntime(own), 'SIGKILL')
    const second = await backend.start(specOf(subject), AbortSignal.timeout(20_000))
    expect(await second.isRunning()).toBe(true)

    const pid = await waitingRuntime(own)
    process.kill(pid, 'SIGSTOP')
    const spec = specOf(subject)
    const third = backend.start(spec, AbortSignal.timeout(20_000))
    // The socket is created in the last step before the runtime gets its configuration.
    await expect.poll(() => existsSync(join(own, 'run', `${spec.id}.sock`))).toBe(true)
    process.kill(pid, 'SIGKILL')
    expect(await (await third).isRunning()).toBe(true)
  })
})

describe('without the runtime that started it', () => {
  it('a machine can still be discarded', async () => {
    const machine = await start()
    const next = await openTestOci({ dataDir, runtime: '/no/such/crun', runnerPath })
    const path = join(dataDir, 'sessions', machine.id, 'config.json')
    writeFileSync(path, JSON.stringify({ ...JSON.parse(readFileSync(path, 'utf8')), runtime: ['/no/such/crun'] }))
    await next.discard(machine.id)
    expect(await machine.isRunning()).toBe(false)
    expect(await next.sessionIds()).not.toContain(machine.id)
    expect(existsSync(join(dataDir, 'run/oci', machine.id))).toBe(false)
    expect(traces(machine.id)).toEqual([])
  })
})

describe('the compiled system call filter', () => {
  it('is not read from a file: a planted file is removed and has no effect', async () => {
    const planted = join(dataDir, 'run', 'seccomp-0123456789abcdef.bpf')
    writeFileSync(planted, Buffer.alloc(8))
    const backend = await subject.open()
    for (const _ of [1, 2]) {
      const spec = specOf(subject)
      const box = boxOf(await backend.start(spec, AbortSignal.timeout(20_000)), spec, {})
      expect((await box.run('unshare -U true')).output).toContain('Operation not permitted')
      box.link.close()
      await box.machine.destroy()
    }
    expect(readdirSync(join(dataDir, 'run')).filter(name => name.endsWith('.bpf'))).toEqual([])
  })
})

describe('images that no machine has', () => {
  it('are removed, and those of existing machines stay', async () => {
    const dir = join(dataDir, 'pruning')
    const [old, used, current] = ['0', '1', '2'].map(digit => digit.repeat(16))
    for (const name of [
      `host-${old}`,
      `host-${used}`,
      `host-${current}`,
      `runner-v2-${old}`,
      `runner-v2-${used}`,
      `launcher-v2-${old}`,
      'empty',
    ])
      mkdirSync(join(dir, name), { recursive: true })
    writeFileSync(join(dir, `runner-${old}`), '')
    mkdirSync(join(dir, `host-${old}.123.new`, 'etc'), { recursive: true })
    const record = { rootfs: `host-${used}`, runner: `runner-v2-${used}` } as MachineRecord
    await pruneOldFolders(dir, [`host-${current}`], [record, { ...record, runner: undefined }])
    expect(readdirSync(dir)).toHaveLength(6)
    await pruneOldFolders(dir, [`host-${current}`], [record])
    expect(readdirSync(dir).toSorted()).toEqual(['empty', `host-${used}`, `host-${current}`, `runner-v2-${used}`])
  })
})
