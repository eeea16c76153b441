import { mkdtemp, readdir, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { Readable } from 'node:stream'
import { setTimeout as delay } from 'node:timers/promises'
import { pack } from 'tar-stream'
import { expect, it, onTestFinished } from 'vitest'
import { LAUNCHER_PATH } from '../backends/plain-child/plain-child.fixture.ts'
import { canCutPower, cuttableDisk } from '../testing/power-cut.fixture.ts'
import { LayerFolders } from './layer-folders.ts'

it('an unpacker that cannot start is an error and leaves no folder', async () => {
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

it.each([
  ['between two pieces', 300],
  ['inside one piece', 0],
])('the error of an unpacker that refuses the layer %s is reported', async (_, pauseMs) => {
  const dir = await mkdtemp(join(tmpdir(), 'sg-layers-'))
  onTestFinished(() => rm(dir, { recursive: true, force: true }))
  const unpacker = join(dir, 'unpacker')
  await writeFile(
    unpacker,
    `#!/bin/sh\nhead -c 1000 >/dev/null; exec 0<&-; echo '{"ok":false,"code":"full","entries":0,"bytes":0,"skipped":0}'; sleep 0.1\n`,
    {
      mode: 0o755,
    },
  )
  const pieces = async function* () {
    for (let i = 0; i < 100; i++) {
      yield Buffer.alloc(1000)
      await delay(pauseMs)
    }
  }
  const limits = { maxBytes: 1e9, maxEntries: 10, reserveBytes: 0 }
  const folders = new LayerFolders(join(dir, 'layers'), unpacker, false)
  const { signal } = new AbortController()
  const unpacked = folders.unpack('app', `sha256:${'0'.repeat(64)}`, Readable.from(pieces()), limits, signal)
  await expect(unpacked).rejects.toMatchObject({ code: 'IMAGE_STORE_FULL' })
  expect(await readdir(join(dir, 'layers'))).toEqual([])
})

it('a tar that is truncated between two entries is refused, even if the unpacker reports success', async () => {
  const dir = await mkdtemp(join(tmpdir(), 'sg-layers-'))
  onTestFinished(() => rm(dir, { recursive: true, force: true }))
  const unpacker = join(dir, 'unpacker')
  await writeFile(unpacker, `#!/bin/sh\ncat >/dev/null; echo '{"ok":true,"entries":1,"bytes":1,"skipped":0}'\n`, { mode: 0o755 })
  const tar = new Readable({ read: () => undefined })
  tar.push(Buffer.alloc(1024))
  setTimeout(() => tar.destroy(), 50)
  const limits = { maxBytes: 1e9, maxEntries: 10, reserveBytes: 0 }
  const folders = new LayerFolders(join(dir, 'layers'), unpacker, false)
  const unpacked = folders.unpack('app', `sha256:${'0'.repeat(64)}`, tar, limits, new AbortController().signal)
  await expect(unpacked).rejects.toMatchObject({ code: 'ERR_STREAM_PREMATURE_CLOSE' })
  expect(await readdir(join(dir, 'layers'))).toEqual([])
})

it('an abort does not wait for an unpacker that waits for the disk', async () => {
  const dir = await mkdtemp(join(tmpdir(), 'sg-layers-'))
  onTestFinished(() => rm(dir, { recursive: true, force: true }))
  const unpacker = join(dir, 'unpacker')
  await writeFile(unpacker, `#!/bin/sh\ncat >/dev/null; touch ${dir}/waits; exec sleep 60\n`, { mode: 0o755 })
  const abort = new AbortController()
  const limits = { maxBytes: 1e9, maxEntries: 10, reserveBytes: 0 }
  const folders = new LayerFolders(join(dir, 'layers'), unpacker, false)
  const unpacked = folders.unpack('app', `sha256:${'0'.repeat(64)}`, Readable.from([Buffer.alloc(1024)]), limits, abort.signal)
  await expect.poll(() => readdir(dir)).toContain('waits')
  abort.abort(new Error('aborted'))
  await expect(unpacked).rejects.toThrow('aborted')
  expect(await readdir(join(dir, 'layers'))).toEqual([])
})

it.runIf(canCutPower)('an unpacked layer survives a power cut', async () => {
  const { folder, cut } = await cuttableDisk()
  const [tar, diffId] = [pack(), `sha256:${'0'.repeat(64)}`]
  for (const name of ['a', 'b']) tar.entry({ name }, 'content')
  tar.finalize()
  const limits = { maxBytes: 1e9, maxEntries: 10, reserveBytes: 0 }
  await new LayerFolders(folder, LAUNCHER_PATH, false).unpack(
    'app',
    diffId,
    Readable.from(tar),
    limits,
    new AbortController().signal,
  )
  const unpacked = new LayerFolders(await cut(), LAUNCHER_PATH, false).folder(diffId)
  for (const name of ['a', 'b']) expect(await readFile(join(unpacked, name), 'utf8')).toBe('content')
})
