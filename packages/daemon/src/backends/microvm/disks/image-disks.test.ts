import { execFileSync } from 'node:child_process'
import { readdirSync } from 'node:fs'
import { readFile, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { expect, it } from 'vitest'
import { NO_OVERCOMMIT } from '../../../data-dir/disk-policy.ts'
import { temporaryFolder } from '../../../testing/daemon.fixture.ts'
import type { MachineRoot, RootImage } from '../../backend.ts'
import { RUNNER_PATH } from '../../plain-child/plain-child.fixture.ts'
import { imageOf } from '../../rootfs/image.fixture.ts'
import { testAuthority } from '../../rootfs/trust/authority.fixture.ts'
import { microvmPaths } from '../paths.ts'
import { ImageDisks } from './image-disks.ts'
import { SpareSpace } from './spare-space.ts'

const HOUR_MS = 3_600_000

it("a slow copy of the host's programs is not started twice, and is fresh from its end on", async () => {
  const dataDir = await temporaryFolder()
  const [runs, go, mksquashfs] = ['runs', 'go', 'mksquashfs'].map(name => join(dataDir, name)) as [string, string, string]
  // Writes the output file: the last argument before the options.
  const waits = `while [ ! -e ${go} ]; do sleep 0.02; done`
  const script = `#!/bin/sh\necho run >> ${runs}\n${waits}\nfor a; do case $a in -*) break;; *) last=$a;; esac; done\n: > "$last"\n`
  await writeFile(mksquashfs, script, { mode: 0o755 })
  let now = 0
  const disks = new ImageDisks(
    microvmPaths(dataDir),
    'no-runner',
    new SpareSpace(dataDir, NO_OVERCOMMIT),
    async () => new Set(),
    () => now,
  )
  const prepare = () =>
    disks.prepare(
      { mksquashfs, sqfstar: null },
      { image: { kind: 'host' }, trust: null },
      AbortSignal.timeout(20_000),
      () => undefined,
    )
  const count = async () => (await readFile(runs, 'utf8').catch(() => '')).split('\n').length - 1

  const first = prepare()
  await expect.poll(count, { timeout: 10_000 }).toBe(1)
  now = HOUR_MS
  const second = prepare()
  await writeFile(go, '')
  const made = await first
  expect(await second).toBe(made)
  expect(await prepare()).toBe(made)
  expect(await count()).toBe(2)
  expect(readdirSync(join(dataDir, 'images/disks')).toSorted()).toEqual([made.overlay, 'host-used', made.image].toSorted())
  now += HOUR_MS
  expect(await prepare()).not.toBe(made)
})

it('disks with and without a certificate authority exist side by side, and those of an old one are removed', {
  timeout: 90_000,
}, async () => {
  const dataDir = await temporaryFolder()
  const paths = microvmPaths(dataDir)
  const mksquashfs = join(dataDir, 'mksquashfs')
  await writeFile(mksquashfs, '#!/bin/sh\nfor a; do case $a in -*) break;; *) last=$a;; esac; done\n: > "$last"\n', {
    mode: 0o755,
  })
  const used = new Set<string>()
  const disks = new ImageDisks(paths, RUNNER_PATH, new SpareSpace(dataDir, NO_OVERCOMMIT), async () => used)
  const [old, current] = [testAuthority('/CN=Old'), testAuthority('/CN=Current')]
  const image = await imageOf(dataDir, [])
  const prepare = (root: MachineRoot) =>
    disks.prepare({ mksquashfs, sqfstar: null }, root, AbortSignal.timeout(60_000), () => undefined)
  const host: RootImage = { kind: 'host' }
  const hosts = await Promise.all([null, old, current].map(trust => prepare({ image: host, trust })))
  const images = await Promise.all([null, old, current].map(trust => prepare({ image, trust })))
  const [plain, ofOld, ofCurrent] = hosts.map(({ overlay }) => overlay)
  const [plainImage, imageOfOld, imageOfCurrent] = images.map(({ overlay }) => overlay)
  expect(new Set(hosts.map(disk => disk.image)).size).toBe(1)
  const names = () =>
    readdirSync(paths.disks)
      .filter(name => !/^(programs|host-used)/.test(name))
      .toSorted()
  const all = [plain, ofOld, ofCurrent, plainImage, imageOfOld, imageOfCurrent].toSorted()
  expect(names()).toEqual(all)
  await disks.prune([image], undefined)
  expect(names()).toEqual(all)
  used.add(imageOfOld ?? '')
  await disks.prune([image], current)
  expect(names()).toEqual(all.filter(name => name !== ofOld))
  used.clear()
  await disks.prune([image], current)
  expect(names()).toEqual([plain, ofCurrent, plainImage, imageOfCurrent].toSorted())
  expect((await prepare({ image: host, trust: old })).overlay).toBe(ofOld)
  expect(names()).toEqual([plain, ofOld, ofCurrent, plainImage, imageOfCurrent].toSorted())
})

it.each(['-9999999999999', '99999999999999999'])('a disk is made of an image with a file whose time is %s', async mtime => {
  const dataDir = await temporaryFolder()
  const paths = microvmPaths(dataDir)
  const disks = new ImageDisks(paths, RUNNER_PATH, new SpareSpace(dataDir, NO_OVERCOMMIT), async () => new Set())
  const image = await imageOf(dataDir, [{ entries: [{ name: 'f', content: 'x', pax: { mtime } }] }])
  const tools = { mksquashfs: 'mksquashfs', sqfstar: 'sqfstar' }
  const made = await disks.prepare(tools, { image, trust: null }, AbortSignal.timeout(20_000), () => undefined)
  expect(execFileSync('unsquashfs', ['-l', join(paths.disks, made.image)], { encoding: 'utf8' })).toContain('/0/f\n')
})
