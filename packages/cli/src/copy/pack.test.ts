import { execFileSync } from 'node:child_process'
import { mkdir, mkdtemp, rm, stat, symlink, truncate, utimes, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { expect, it, onTestFinished } from 'vitest'
import { pack } from './pack.ts'

it('a file that shrinks while its folder is packed is an error that names it', async () => {
  const folder = await mkdtemp(join(tmpdir(), 'pack-'))
  onTestFinished(() => rm(folder, { recursive: true }))
  const path = join(folder, 'log')
  await writeFile(path, Buffer.alloc(1_000_000))
  const pieces = pack(folder, () => undefined)
  await pieces.next() // the header, which states the length
  await truncate(path, 1000)
  const rest = async () => {
    for await (const _ of pieces);
  }
  await expect(rest()).rejects.toMatchObject({ code: 'SOURCE_FAILED', detail: { path } })
})

it('unreadable entries are skipped and reported to onUnreadable', async () => {
  // This folder has a file that not even root may read.
  const unreadable = '/proc/sys/vm'
  const told: string[] = []
  const pieces: Uint8Array[] = []
  for await (const piece of pack(unreadable, () => undefined, { onUnreadable: what => told.push(what) })) pieces.push(piece)
  expect(told).toContain('/proc/sys/vm/compact_memory: permission denied')
  expect(Buffer.concat(pieces).toString('latin1')).toContain('swappiness')
  const all = async () => {
    for await (const _ of pack(unreadable, () => undefined));
  }
  await expect(all()).rejects.toMatchObject({ code: 'EACCES' })
})

it('a file without any permission and a time after 2038 are packed as they are', async () => {
  const folder = await mkdtemp(join(tmpdir(), 'pack-'))
  onTestFinished(() => rm(folder, { recursive: true }))
  await writeFile(join(folder, 'closed'), '', { mode: 0 })
  await utimes(join(folder, 'closed'), 1, new Date('2100-01-01T00:00:00Z'))
  const pieces: Uint8Array[] = []
  for await (const piece of pack(folder, () => undefined)) pieces.push(piece)
  const list = execFileSync('tar', ['-tv', '--utc'], { input: Buffer.concat(pieces), encoding: 'utf8' })
  expect(list).toMatch(/^---------- .* 2100-01-01 00:00 closed\n$/)
})

it('packing ends when its reader stops', async () => {
  const folder = await mkdtemp(join(tmpdir(), 'pack-'))
  onTestFinished(() => rm(folder, { recursive: true }))
  for (let i = 0; i < 200; i++) await mkdir(join(folder, `folder-${i}`))
  await writeFile(join(folder, 'big'), Buffer.alloc(2_000_000))
  for (const count of [1, 3, 150]) {
    let taken = 0
    for await (const _ of pack(folder, () => undefined)) if (++taken === count) break
    expect(taken).toBe(count)
  }
})

it.each([
  { what: 'files', count: 250, bytes: 512 + 20_480, make: (path: string) => writeFile(path, Buffer.alloc(20_000)), most: 70 },
  { what: 'links', count: 1000, bytes: 512, make: (path: string) => symlink('x', path), most: 330 },
])('a slow reader bounds how many $what are read ahead', async ({ count, bytes, make, most }) => {
  const folder = await mkdtemp(join(tmpdir(), 'pack-'))
  onTestFinished(() => rm(folder, { recursive: true }))
  for (let i = 0; i < count; i++) await make(join(folder, `entry-${i}`))
  let [begun, taken, ahead] = [0, 0, 0]
  for await (const piece of pack(folder, () => undefined, { isPacked: () => ++begun > 0 })) {
    taken += piece.length
    // Takes the next piece only when packing has come to a halt: no entry needs as many calls of the file system.
    for (let [seen, idle] = [begun, 0]; idle < 10; idle++) {
      await stat(folder)
      if (begun > seen) [seen, idle] = [begun, 0]
    }
    ahead = Math.max(ahead, begun - taken / bytes)
  }
  expect(begun).toBe(count)
  expect(ahead).toBeLessThan(most)
})
