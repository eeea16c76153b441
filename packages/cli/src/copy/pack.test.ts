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
