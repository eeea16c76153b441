import { mkdir, open, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { expect, it } from 'vitest'
import { temporaryFolder } from '../../testing/daemon.fixture.ts'
import { PromisedSpace } from './promised-space.ts'

const MiB = 1024 * 1024

it('promised space is the part of each disk that is not allocated yet', async () => {
  const sessions = await temporaryFolder()
  for (const id of ['a', 'b', 'without-disk', 'log-alone']) await mkdir(join(sessions, id))
  await writeFile(join(sessions, 'without-disk', 'config.json'), '{}')
  for (const [id, written] of [
    ['a', 0],
    ['b', 3 * MiB],
  ] as const) {
    const disk = await open(join(sessions, id, 'disk.ext4'), 'w')
    await disk.write(Buffer.alloc(written, 1))
    await disk.truncate(8 * MiB)
    await disk.sync()
    await disk.close()
  }
  const { free, promised } = await new PromisedSpace(sessions).read()
  expect(free).toBeGreaterThan(0)
  expect(promised.get('a')).toBe(8 * MiB)
  expect(promised.get('b')).toBeLessThanOrEqual(5 * MiB)
  expect(promised.get('b')).toBeGreaterThan(4 * MiB)
  expect(promised.get('without-disk')).toBe(0)
  expect(promised.has('log-alone')).toBe(false)
})

it('a disk is measured again after a while, and a new one immediately', async () => {
  const sessions = await temporaryFolder()
  const disk = async (id: string, bytes: number) => {
    await mkdir(join(sessions, id), { recursive: true })
    await using file = await open(join(sessions, id, 'disk.ext4'), 'w')
    await file.truncate(bytes)
  }
  let now = 0
  const space = new PromisedSpace(sessions, () => now)
  await disk('a', 8 * MiB)
  expect((await space.read()).promised).toEqual(new Map([['a', 8 * MiB]]))
  await disk('a', 4 * MiB)
  await disk('b', 2 * MiB)
  expect(Object.fromEntries((await space.read()).promised)).toEqual({ a: 8 * MiB, b: 2 * MiB })
  now = 60_000
  expect(Object.fromEntries((await space.read()).promised)).toEqual({ a: 4 * MiB, b: 2 * MiB })
})

it('a disk that is created after the folder of its session is measured immediately', async () => {
  const sessions = await temporaryFolder()
  const space = new PromisedSpace(sessions, () => 0)
  await mkdir(join(sessions, 'a'))
  await writeFile(join(sessions, 'a', 'config.json'), '{}')
  expect((await space.read()).promised).toEqual(new Map([['a', 0]]))
  await using file = await open(join(sessions, 'a', 'disk.ext4'), 'w')
  await file.truncate(8 * MiB)
  expect((await space.read()).promised).toEqual(new Map([['a', 8 * MiB]]))
})
