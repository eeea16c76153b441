// The start of an emulated machine from a snapshot: the kernel that it uses, and the disks that it leaves alone.

import { execFileSync } from 'node:child_process'
import { readdirSync, readFileSync, readlinkSync } from 'node:fs'
import { basename, join } from 'node:path'
import { afterAll, beforeAll, expect, it } from 'vitest'
import type { Machine } from '../../backend.ts'
import { specOf } from '../../conformance/subject.ts'
import { openMicrovm } from '../backend.ts'
import { removeTestMicrovm, testMicrovm } from '../microvm.fixture.ts'
import { WAITING_LINE } from './guest-console.ts'

const options = await testMicrovm({ accel: 'tcg' })
const disks = join(options.dataDir, 'images/disks')
/** How many bytes of a file are in the page cache. */
const cachedBytes = (path: string) =>
  Number(execFileSync('fincore', ['--bytes', '--noheadings', '--output', 'RES', path], { encoding: 'utf8' }))
const overlayDisks = readdirSync(disks)
  .filter(name => name.startsWith('host-') && name.endsWith('.sqfs'))
  .map(name => join(disks, name))
let machine: Machine
let cachedBefore: number[]

beforeAll(async () => {
  for (const disk of overlayDisks) readFileSync(disk)
  cachedBefore = overlayDisks.map(cachedBytes)
  machine = await openMicrovm(options).start(specOf({ allowUnenforced: [] }), AbortSignal.timeout(80_000))
}, 120_000)
afterAll(async () => {
  await machine.destroy()
  await removeTestMicrovm(options)
})
/** '' for a descriptor that is closed meanwhile. */
function targetOf(path: string): string {
  try {
    return readlinkSync(path)
  } catch {
    return ''
  }
}
const sessionFile = (path: string) => readFileSync(join(options.dataDir, 'sessions', machine.id, path), 'utf8')

it('an emulated machine boots the uncompressed kernel', () => {
  const folder = `/proc/${JSON.parse(sessionFile('state.json')).pid}/fd`
  const open = readdirSync(folder).map(fd => basename(targetOf(join(folder, fd))))
  expect(open).toContain('plain-kernel')
})

it('a start from a snapshot does not boot the machine', () => {
  expect(sessionFile('logs/boot.log')).not.toContain(WAITING_LINE)
})

it('a start from a snapshot does not evict the disks of the image from the page cache', () => {
  expect(overlayDisks.length).toBeGreaterThan(0)
  expect(overlayDisks.map(cachedBytes)).toEqual(cachedBefore)
})
