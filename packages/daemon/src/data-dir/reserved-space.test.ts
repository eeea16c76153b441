import { readdir, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { expect, it } from 'vitest'
import { temporaryFolder } from '../testing/daemon.fixture.ts'
import { ReservedSpace } from './reserved-space.ts'

it.each(['reserved-space', 'ballast'])('frees the space under the name %s, once', async name => {
  const folder = await temporaryFolder()
  await writeFile(join(folder, name), 'x')
  const space = new ReservedSpace(join(folder, 'reserved-space'))
  expect(space.free()).toBe(true)
  expect(await readdir(folder)).toEqual([])
  expect(space.free()).toBe(false)
})

it('reserves the space under one name when an earlier version left another', async () => {
  const folder = await temporaryFolder()
  await writeFile(join(folder, 'ballast'), 'x')
  new ReservedSpace(join(folder, 'reserved-space')).reserve({ isFirst: true })
  expect(await readdir(folder)).toEqual(['reserved-space'])
})
