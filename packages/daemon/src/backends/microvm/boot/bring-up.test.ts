// What a start spares the host and the machine.
import { execFileSync } from 'node:child_process'
import { readdirSync, readFileSync, readlinkSync } from 'node:fs'
import { basename, join } from 'node:path'
import { afterAll, expect, it, onTestFinished } from 'vitest'
import { specOf } from '../../conformance/subject.ts'
import { openMicrovm } from '../backend.ts'
import { removeTestMicrovm, testMicrovm } from '../microvm.fixture.ts'

const options = await testMicrovm({ accel: 'tcg' })
afterAll(() => removeTestMicrovm(options))
const disks = join(options.dataDir, 'images/disks')
/** Of a disk, how much the host has in its memory. */
const inMemory = (path: string) =>
  Number(execFileSync('fincore', ['--bytes', '--noheadings', '--output', 'RES', path], { encoding: 'utf8' }))

it('an emulated machine has a kernel that is unpacked, and a start from a snapshot leaves the disks in memory', {
  timeout: 120_000,
}, async () => {
  const tops = readdirSync(disks)
    .filter(name => name.startsWith('host-') && name.endsWith('.sqfs'))
    .map(name => join(disks, name))
  expect(tops.length).toBeGreaterThan(0)
  for (const top of tops) readFileSync(top)
  const before = tops.map(inMemory)
  const machine = await openMicrovm(options).start(specOf({ allowUnenforced: [] }), AbortSignal.timeout(80_000))
  onTestFinished(() => machine.destroy())
  const { pid } = JSON.parse(readFileSync(join(options.dataDir, 'sessions', machine.id, 'state.json'), 'utf8'))
  expect(basename(readlinkSync(`/proc/${pid}/fd/3`))).toBe('plain-kernel')
  expect(readFileSync(join(options.dataDir, 'sessions', machine.id, 'logs/boot.log'), 'utf8')).not.toContain(
    'waiting for the session',
  )
  expect(tops.map(inMemory)).toEqual(before)
})
