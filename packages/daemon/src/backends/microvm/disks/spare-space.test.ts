// Tests on a small disk, most of which is promised to sessions. SECURITY: a sandbox within its limit must not lose data.
import { execFileSync } from 'node:child_process'
import { randomBytes } from 'node:crypto'
import { existsSync, mkdirSync, readdirSync, rmSync, statfsSync, truncateSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { afterAll, describe, expect, it, onTestFinished } from 'vitest'
import { NO_OVERCOMMIT } from '../../../data-dir/disk-policy.ts'
import { temporaryFolder } from '../../../testing/daemon.fixture.ts'
import type { RootImage } from '../../backend.ts'
import { hostProcesses } from '../../conformance/host-view.ts'
import { specOf } from '../../conformance/subject.ts'
import { RUNNER_PATH } from '../../plain-child/plain-child.fixture.ts'
import { imageOf } from '../../rootfs/image.fixture.ts'
import { openMicrovm } from '../backend.ts'
import { removeTestMicrovm, snapshotMachine, testMicrovm } from '../microvm.fixture.ts'
import { microvmPaths } from '../paths.ts'
import { ImageDisks } from './image-disks.ts'
import { SpareSpace } from './spare-space.ts'

const MiB = 1024 * 1024
const tools = { mksquashfs: 'mksquashfs', sqfstar: 'sqfstar' }

/** Promises so many bytes: makes the disk of a session that has not written yet. */
function promise(dataDir: string, bytes: number): void {
  const disk = join(dataDir, 'sessions', 'keepit', 'disk.raw')
  mkdirSync(join(disk, '..'), { recursive: true })
  writeFileSync(disk, '')
  truncateSync(disk, bytes)
}

/** 480 MiB, of which 128 are kept free and 200 are promised to a session. */
async function smallDisk(overcommit: number) {
  const dataDir = await temporaryFolder()
  execFileSync('mount', ['-t', 'tmpfs', '-o', 'size=480m,mode=700', 'tmpfs', dataDir])
  onTestFinished(() => void execFileSync('umount', ['--lazy', dataDir]))
  promise(dataDir, 200 * MiB)
  const paths = microvmPaths(dataDir)
  const space = new SpareSpace(paths.sessions, { ...NO_OVERCOMMIT, overcommit })
  const disks = new ImageDisks(paths, RUNNER_PATH, space, async () => new Set())
  return {
    prepare: (image: RootImage) => disks.prepare(tools, { image, trust: null }, AbortSignal.timeout(60_000), () => undefined),
    made: () => readdirSync(paths.disks).filter(name => /^(image|programs)-/.test(name)),
    free: () => statfsSync(dataDir).bavail * statfsSync(dataDir).bsize,
  }
}

const image = async (mib: number) =>
  await imageOf(await temporaryFolder(), [{ entries: [{ name: 'big', content: randomBytes(mib * MiB) }], compression: 'none' }])

/** Only root can mount the small disk. */
describe.runIf(process.getuid?.() === 0)('a disk of an image', () => {
  it('that needs space promised to a session is aborted, and its space is freed', async () => {
    const disk = await smallDisk(1)
    const before = disk.free()
    let least = before
    const checks = setInterval(() => (least = Math.min(least, disk.free())), 10)
    onTestFinished(() => clearInterval(checks))
    await expect(disk.prepare(await image(300))).rejects.toMatchObject({
      code: 'HOST_FULL',
      message: expect.stringContaining('a disk of busybox:test'),
    })
    expect(least).toBeLessThan(before - 64 * MiB)
    expect(least).toBeGreaterThan(300 * MiB)
    expect(disk.made()).toEqual([])
    await expect.poll(disk.free, { timeout: 10_000 }).toBeGreaterThan(before - MiB)
  })

  it("of the host's programs is aborted in the same way", async () => {
    const disk = await smallDisk(1)
    await expect(disk.prepare({ kind: 'host' })).rejects.toMatchObject({ code: 'HOST_FULL' })
    expect(disk.made()).toEqual([])
    expect(disk.free()).toBeGreaterThan(470 * MiB)
  })

  it('that fits into spare space is made, and any disk if overcommit is unlimited', async () => {
    for (const [overcommit, mib] of [
      [1, 50],
      [Number.POSITIVE_INFINITY, 300],
    ] as const) {
      const disk = await smallDisk(overcommit)
      expect(disk.made).toThrow('ENOENT')
      await disk.prepare(await image(mib))
      expect(disk.made()).toHaveLength(1)
    }
  })
})

describe('a snapshot', async () => {
  const options = await testMicrovm()
  afterAll(() => removeTestMicrovm(options))

  it('is aborted if its space is promised to a session meanwhile', { timeout: 240_000 }, async () => {
    const spec = specOf({ allowUnenforced: [] }, { memoryMb: 550 + (process.pid % 97) })
    const backend = openMicrovm(options)
    const machine = await backend.start(spec, AbortSignal.timeout(60_000))
    onTestFinished(() => machine.destroy())
    const { pid, argv } = await snapshotMachine(spec.memoryMb)
    promise(options.dataDir, 8 * 1024 ** 4)
    await expect.poll(() => hostProcesses().some(process => process.pid === pid), { timeout: 120_000 }).toBe(false)
    await backend.close?.()
    const key = /snapshot-[0-9a-f]{8}-([0-9a-f]{16})/.exec(argv)?.[1] ?? ''
    const snapshots = join(options.dataDir, 'images', 'snapshots')
    expect(readdirSync(snapshots).filter(name => name.startsWith(key))).toEqual([])
    expect(existsSync(join(options.dataDir, 'run', `snapshot-${key}`))).toBe(false)
    rmSync(join(options.dataDir, 'sessions', 'keepit'), { recursive: true })
  })
})
