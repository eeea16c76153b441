import { createHash, randomBytes } from 'node:crypto'
import { Readable } from 'node:stream'
import { gzipSync, zstdCompressSync } from 'node:zlib'
import { describe, expect, it } from 'vitest'
import { compressionOf, type LayerSource, layerTar } from './layer-tar.ts'

const text = Buffer.concat([randomBytes(300_000), Buffer.alloc(700_000, 'x'), randomBytes(5)])
const [first, second] = [text.subarray(0, 400_000), text.subarray(400_000)]
/** A skippable frame, as a table of contents uses it. */
const skipped = Buffer.concat([Buffer.from([0x50, 0x2a, 0x4d, 0x18, 5, 0, 0, 0]), Buffer.alloc(5)])
const diffId = (content: Buffer) => `sha256:${createHash('sha256').update(content).digest('hex')}`

async function read(blob: Buffer, more: Partial<LayerSource> = {}, pieceBytes = 10_000): Promise<Buffer> {
  const pieces = Array.from({ length: Math.ceil(blob.length / pieceBytes) }, (_, i) =>
    blob.subarray(i * pieceBytes, (i + 1) * pieceBytes),
  )
  const tar = layerTar(Readable.from(pieces), { image: 'x', diffId: diffId(text), compression: compressionOf(blob), ...more })
  const found: Buffer[] = []
  for await (const piece of tar) found.push(piece)
  return Buffer.concat(found)
}

describe('the tar of a layer', () => {
  it.each([
    ['uncompressed', text],
    ['gzip', gzipSync(text)],
    ['gzip in two members', Buffer.concat([gzipSync(first), gzipSync(second)])],
    ['gzip with padding', Buffer.concat([gzipSync(text), Buffer.alloc(100_000)])],
    ['zstd', zstdCompressSync(text)],
    ['zstd in two frames', Buffer.concat([zstdCompressSync(first), zstdCompressSync(second)])],
    ['zstd with skippable frames', Buffer.concat([skipped, zstdCompressSync(first), skipped, zstdCompressSync(second), skipped])],
  ])('%s', async (_, blob) => {
    for (const pieceBytes of [blob.length, 10_000, 777]) expect((await read(blob, {}, pieceBytes)).equals(text)).toBe(true)
  })

  it('fails if it does not match its diff id', async () => {
    await expect(read(gzipSync(first))).rejects.toMatchObject({ code: 'IMAGE_DIGEST_MISMATCH' })
  })

  it.each([
    ['gzip', gzipSync(text)],
    ['zstd', zstdCompressSync(text)],
  ])('fails for truncated or damaged %s data', async (_, blob) => {
    await expect(read(blob.subarray(0, blob.length - 20))).rejects.toMatchObject({ code: 'IMAGE_INVALID' })
    await expect(read(Buffer.from(blob).fill(1, 1000, 2000))).rejects.toMatchObject({
      code: expect.stringMatching(/INVALID|MISMATCH/),
    })
  })

  it('fails for zstd data of many almost empty frames', async () => {
    const many = Buffer.concat([
      zstdCompressSync(Buffer.alloc(10_000_000)),
      ...Array(20_000).fill(zstdCompressSync(Buffer.alloc(0))),
    ])
    await expect(read(many, {}, 256 * 1024)).rejects.toMatchObject({
      code: 'IMAGE_INVALID',
      message: expect.stringContaining('zstd frames with almost no content'),
    })
    await expect(read(Buffer.concat([zstdCompressSync(first), Buffer.from('none')]))).rejects.toMatchObject({
      code: 'IMAGE_INVALID',
    })
  })

  it('fails with the error of onBytes', async () => {
    let seen = 0
    const onBytes = (bytes: number) => {
      seen += bytes
      if (seen > 500_000) throw new RangeError('enough')
    }
    await expect(read(gzipSync(Buffer.alloc(100_000_000)), { onBytes })).rejects.toThrow('enough')
    expect(seen).toBeLessThan(2_000_000)
  })

  it('can be destroyed before its end', async () => {
    const tar = layerTar(Readable.from([gzipSync(text)]), { image: 'x', diffId: diffId(text), compression: 'gzip' })
    for await (const _ of tar) break
    expect(tar.destroyed).toBe(true)
  })
})
