import { mkdtemp, readdir, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { Readable } from 'node:stream'
import { expect, it, onTestFinished } from 'vitest'
import { LayerFolders } from './layer-folders.ts'

it('an unpacker that cannot be started is an error, and leaves nothing', async () => {
  const dir = await mkdtemp(join(tmpdir(), 'sg-layers-'))
  onTestFinished(() => rm(dir, { recursive: true, force: true }))
  const folders = new LayerFolders(dir, join(dir, 'no-runner'), false)
  const limits = { maxBytes: 1e9, maxEntries: 10, reserveBytes: 0 }
  const pieces = async function* () {
    for (let i = 0; i < 100; i++) {
      yield Buffer.alloc(65_536)
      await new Promise(resolve => setImmediate(resolve))
    }
  }
  const unpacked = folders.unpack(
    'app',
    `sha256:${'0'.repeat(64)}`,
    Readable.from(pieces()),
    limits,
    new AbortController().signal,
  )
  await expect(unpacked).rejects.toThrow('ENOENT')
  expect(await readdir(dir)).toEqual([])
})
