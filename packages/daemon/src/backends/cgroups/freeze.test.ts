import { execFileSync } from 'node:child_process'
import { constants, createReadStream, openSync } from 'node:fs'
import { mkdir, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { expect, onTestFinished, test } from 'vitest'
import { temporaryFolder } from '../../daemon.fixture.ts'
import { freeze } from './freeze.ts'
import type { CgroupLayout } from './layout.ts'

const OTHERWISE = { others: [], prefix: '', daemon: '', unified: null, countsSwap: true }

/** A group of a kernel that reports it frozen once it was to be so for this long without a break. `orders` is all that was written to it. */
async function slowGroup(frozenAfterMs: number) {
  const root = await temporaryFolder()
  const dir = join(root, 'parent', 'group')
  await mkdir(dir, { recursive: true })
  await writeFile(join(dir, 'cgroup.events'), 'populated 1\nfrozen 0\n')
  execFileSync('mkfifo', [join(dir, 'cgroup.freeze')])
  const fd = openSync(join(dir, 'cgroup.freeze'), constants.O_RDWR)
  const kernel = createReadStream('', { fd, encoding: 'utf8' })
  // Reading blocks a thread until somebody writes.
  onTestFinished(() => writeFile(join(dir, 'cgroup.freeze'), '0'))
  onTestFinished(() => void kernel.destroy())
  const layout: CgroupLayout = { version: 2, roots: { freezer: root }, ...OTHERWISE }
  const group = { layout, orders: '' }
  let since = Date.now()
  kernel.on('data', async order => {
    group.orders += order
    if (order.includes('0')) since = Date.now()
    else if (Date.now() - since >= frozenAfterMs) await writeFile(join(dir, 'cgroup.events'), 'populated 1\nfrozen 1\n')
  })
  return group
}

test('a group that takes long to stop is let go now and then, and still given the time that it needs', async () => {
  const group = await slowGroup(700)
  await freeze(group.layout, 'parent', 'group')
  expect(group.orders).toMatch(/1$/)
})

test('a group that does not stop goes on, and that is said', async () => {
  const group = await slowGroup(Number.POSITIVE_INFINITY)
  await expect(freeze(group.layout, 'parent', 'group', 500)).rejects.toMatchObject({
    code: 'PAUSE_FAILED',
    detail: { seconds: 0.5 },
  })
  await expect.poll(() => group.orders).toMatch(/1+0$/)
})
