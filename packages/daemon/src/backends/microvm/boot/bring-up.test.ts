// What makes a start cheap.
import { execFileSync } from 'node:child_process'
import { readdirSync, readFileSync, readlinkSync } from 'node:fs'
import { basename, join } from 'node:path'
import { afterAll, beforeAll, expect, it } from 'vitest'
import type { Machine } from '../../backend.ts'
import { specOf } from '../../conformance/subject.ts'
import { openMicrovm } from '../backend.ts'
import { removeTestMicrovm, testMicrovm } from '../microvm.fixture.ts'

const options = await testMicrovm({ accel: 'tcg' })
const disks = join(options.dataDir, 'images/disks')
/** Bytes of a file in the host's page cache. */
const cachedBytes = (path: string) =>
  Number(execFileSync('fincore', ['--bytes', '--noheadings', '--output', 'RES', path], { encoding: 'utf8' }))
const topDisks = readdirSync(disks)
  .filter(name => name.startsWith('host-') && name.endsWith('.sqfs'))
  .map(name => join(disks, name))
let machine: Machine
let cachedBefore: number[]

it('an emulated machine boots the uncompressed kernel, and a start from a snapshot keeps the page cache of the disks', {
  timeout: 120_000,
}, async () => {
  const overlays = readdirSync(disks)
    .filter(name => name.startsWith('host-') && name.endsWith('.sqfs'))
    .map(name => join(disks, name))
  expect(overlays.length).toBeGreaterThan(0)
  for (const overlay of overlays) readFileSync(overlay)
  const before = overlays.map(cachedBytes)
  const machine = await openMicrovm(options).start(specOf({ allowUnenforced: [] }), AbortSignal.timeout(80_000))
  onTestFinished(() => machine.destroy())
  const { pid } = JSON.parse(readFileSync(join(options.dataDir, 'sessions', machine.id, 'state.json'), 'utf8'))
  expect(basename(readlinkSync(`/proc/${pid}/fd/3`))).toBe('plain-kernel')
  expect(readFileSync(join(options.dataDir, 'sessions', machine.id, 'logs/boot.log'), 'utf8')).not.toContain(
    'waiting for the session',
  )
  expect(overlays.map(cachedBytes)).toEqual(before)
})
