import { mkdtemp, rm, truncate, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { expect, it, onTestFinished } from 'vitest'
import { pack } from './pack.ts'

it('a file that becomes shorter while its folder is packed is named', async () => {
  const folder = await mkdtemp(join(tmpdir(), 'pack-'))
  onTestFinished(() => rm(folder, { recursive: true }))
  const path = join(folder, 'log')
  await writeFile(path, Buffer.alloc(1_000_000))
  const pieces = pack(folder, () => undefined)
  await pieces.next() // its header, which has promised the length
  await truncate(path, 1000)
  const rest = async () => {
    for await (const _ of pieces);
  }
  await expect(rest()).rejects.toMatchObject({ code: 'SOURCE_FAILED', detail: { path } })
})

it('unreadable entries are skipped and reported to onUnreadable', async () => {
  // It has a file that nobody may read, not even root.
  const unreadable = '/proc/sys/vm'
  const told: string[] = []
  const pieces: Buffer[] = []
  for await (const piece of pack(unreadable, () => undefined, { onUnreadable: what => told.push(what) })) pieces.push(piece)
  expect(told).toContain('/proc/sys/vm/compact_memory: permission denied')
  expect(Buffer.concat(pieces).toString('latin1')).toContain('swappiness')
  const all = async () => {
    for await (const _ of pack(unreadable, () => undefined));
  }
  await expect(all()).rejects.toMatchObject({ code: 'EACCES' })
})
