import { execFileSync } from 'node:child_process'
import { readdir } from 'node:fs/promises'
import { join } from 'node:path'
import { expect, it } from 'vitest'
import { temporaryFolder } from '../../../testing/daemon.fixture.ts'
import { SessionDisks } from './session-disk.ts'

const tools = { mke2fs: 'mke2fs', qemuImg: 'qemu-img' }

it.each(['qcow2', 'raw'] as const)('concurrent sessions get complete %s disks of a new size', async format => {
  const [empty, folder] = [await temporaryFolder(), await temporaryFolder()]
  const targets = [1, 2, 3].map(i => join(folder, `${i}.${format}`))
  const disks = new SessionDisks(empty)
  // The last belongs to another daemon.
  const makers = [disks, disks, new SessionDisks(empty)]
  await Promise.all(targets.map(async (target, i) => await makers[i]?.create(tools, format, 67, target)))
  expect(await readdir(empty)).toEqual([`vm-67.${format}`])
  for (const target of targets) {
    execFileSync('qemu-img', ['convert', '-O', 'raw', target, `${target}.plain`])
    execFileSync('e2fsck', ['-n', '-f', `${target}.plain`], { stdio: 'ignore' })
  }
})
