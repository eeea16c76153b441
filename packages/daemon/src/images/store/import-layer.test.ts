import { execFileSync } from 'node:child_process'
import { mkdtemp, open, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { Readable } from 'node:stream'
import { buffer } from 'node:stream/consumers'
import { LIMITS } from '@sandglass/contract'
import { pack } from 'tar-stream'
import { describe, expect, it, onTestFinished } from 'vitest'
import { Budget } from '../store/budget.ts'
import { tarOf } from '../testing/image.fixture.ts'
import { importLayer } from './import-layer.ts'

const importTar = (tar: Buffer, budget: Budget) =>
  importLayer({ backends: new Map() }, 'app', 'sha256:0', Readable.from(pieces(tar)), budget, new AbortController().signal)

describe('a layer that no backend unpacks', () => {
  it('is counted: its entries and its bytes', async () => {
    const long = 'n'.repeat(200)
    const tar = await tarOf([
      { name: 'f', content: 'x'.repeat(10_000) },
      { name: `d/${long}/${long}`, content: 'y'.repeat(1000) },
      { name: 'd', type: 'directory' },
      { name: 'l', type: 'symlink', linkname: 'f' },
    ])
    await importTar(tar, new Budget('app', 11_000 + 4 * 4096, 0))
    await expect(importTar(tar, new Budget('app', 10_999 + 4 * 4096, 0))).rejects.toMatchObject({ code: 'IMAGE_TOO_LARGE' })
  })

  it('is added to the other layers of its image', async () => {
    const tar = await tarOf([{ name: 'f' }])
    const budget = new Budget('app', 1e12, 0)
    budget.addUnpacked({ entries: LIMITS.image_entries.max - 1, bytes: 0 })
    await importTar(tar, budget)
    await expect(importTar(tar, budget)).rejects.toMatchObject({ code: 'IMAGE_TOO_LARGE', detail: { what: 'entries' } })
  })

  it('is refused if it is not a tar or is truncated', async () => {
    const whole = await tarOf([{ name: 'f', content: 'x'.repeat(10_000) }])
    for (const tar of [Buffer.alloc(4096, 'no'), whole.subarray(0, 5000), whole.subarray(0, 300)])
      await expect(importTar(tar, new Budget('app', 1e12, 0))).rejects.toMatchObject({ code: 'IMAGE_INVALID' })
  })

  it('may have its size in an extended header, whose own size is limited', async () => {
    const archive = pack()
    archive.entry({ name: 'f', type: 'file', pax: { size: '70000' } }, '')
    archive.finalize()
    const header = (await buffer(archive)).subarray(0, -1024)
    const tar = Buffer.concat([header, Buffer.alloc(70_144), Buffer.alloc(1024)])
    await importTar(tar, new Budget('app', 70_000 + 4096, 0))
    await expect(importTar(tar, new Budget('app', 69_999 + 4096, 0))).rejects.toMatchObject({ code: 'IMAGE_TOO_LARGE' })
    const huge = await tarOf([{ name: 'f', content: 'x'.repeat(2 * 1024 * 1024) }])
    asExtended(huge)
    await expect(importTar(huge, new Budget('app', 1e12, 0))).rejects.toMatchObject({ code: 'IMAGE_INVALID' })
  })

  it('counts sparse files by their apparent size', async () => {
    const dir = await mkdtemp(join(tmpdir(), 'sg-sparse-'))
    onTestFinished(() => rm(dir, { recursive: true, force: true }))
    const size = 64 * 1024 * 1024
    // More extents than fit into the header of the older format.
    const file = await open(join(dir, 'f'), 'w')
    for (let at = 0; at < size; at += size / 32) await file.write('x', at)
    await file.truncate(size)
    await file.close()
    for (const format of ['gnu', 'posix']) {
      const tar = execFileSync('tar', ['-C', dir, `--format=${format}`, '-cSf', '-', 'f'])
      await importTar(tar, new Budget('app', size + 4096, 0))
      await expect(importTar(tar, new Budget('app', size + 4095, 0))).rejects.toMatchObject({ code: 'IMAGE_TOO_LARGE' })
    }
  })
})

/** Turns the first entry into an extended header for the next entry. */
function asExtended(tar: Buffer): void {
  const [from, to] = [tar.readUInt8(156), 'x'.charCodeAt(0)]
  tar.writeUInt8(to, 156)
  const sum = Number.parseInt(tar.toString('latin1', 148, 154), 8) + to - from
  tar.write(`${sum.toString(8).padStart(6, '0')}\0 `, 148, 'latin1')
}

/** Pieces whose length is not a multiple of the block size. */
function* pieces(tar: Buffer): Generator<Buffer> {
  for (let at = 0; at < tar.length; at += 777) yield tar.subarray(at, at + 777)
}
