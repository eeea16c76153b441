import { execFileSync } from 'node:child_process'
import { readdirSync } from 'node:fs'
import { readFile, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { expect, it } from 'vitest'
import { NO_OVERCOMMIT } from '../../../data-dir/disk-policy.ts'
import { temporaryFolder } from '../../../testing/daemon.fixture.ts'
import { RUNNER_PATH } from '../../plain-child/plain-child.fixture.ts'
import { imageOf } from '../../rootfs/image.fixture.ts'
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
    disks.prepare({ mksquashfs, sqfstar: null }, { kind: 'host' }, AbortSignal.timeout(20_000), () => undefined)
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

it.each(['-9999999999999', '99999999999999999'])('a disk is made of an image with a file whose time is %s', async mtime => {
  const dataDir = await temporaryFolder()
  const paths = microvmPaths(dataDir)
  const disks = new ImageDisks(paths, RUNNER_PATH, new SpareSpace(dataDir, NO_OVERCOMMIT), async () => new Set())
  const image = await imageOf(dataDir, [{ entries: [{ name: 'f', content: 'x', pax: { mtime } }] }])
  const tools = { mksquashfs: 'mksquashfs', sqfstar: 'sqfstar' }
  const made = await disks.prepare(tools, image, AbortSignal.timeout(20_000), () => undefined)
  expect(execFileSync('unsquashfs', ['-l', join(paths.disks, made.image)], { encoding: 'utf8' })).toContain('/0/f\n')
})
