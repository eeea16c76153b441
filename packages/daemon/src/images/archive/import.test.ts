import { readFileSync } from 'node:fs'
import { Readable } from 'node:stream'
import { gzipSync, zstdCompressSync } from 'node:zlib'
import { describe, expect, it } from 'vitest'
import { until } from '../../testing/daemon.fixture.ts'
import {
  type Entry,
  imageOf,
  json,
  layerOf,
  layoutArchive,
  plainImage,
  savedArchive,
  sha256,
  tarOf,
} from '../testing/image.fixture.ts'
import { imageDaemon, progressOf } from '../testing/image-daemon.fixture.ts'

describe('an archive', () => {
  it('of docker save is imported with its names, uncompressed and compressed', async () => {
    const image = imageOf([
      await layerOf([{ name: 'f', content: '1' }], 'none'),
      await layerOf([{ name: 'g', content: '2' }], 'gzip'),
    ])
    const archive = await savedArchive([{ image, tags: ['app:1', 'team/app:latest'] }])
    for (const body of [archive, gzipSync(archive), zstdCompressSync(archive)]) {
      const daemon = await imageDaemon('')
      const done = await daemon.import(body)
      expect(done.error).toBeUndefined()
      expect(done.image).toMatchObject({
        id: image.id,
        source: 'archive',
        references: ['docker.io/library/app:1', 'docker.io/team/app:latest'],
      })
      expect(
        image.layers.map(({ diffId }) => daemon.layer(diffId)).map((folder, i) => readFileSync(`${folder}/${'fg'[i]}`, 'utf8')),
      ).toEqual(['1', '2'])
      expect(progressOf(done).map(({ phase }) => phase)).toContain('done')
      expect(await daemon.stored('import')).toEqual([])
      await daemon.close()
    }
  })

  it('of docker save may have several images, and links in place of shared layers', async () => {
    const shared = await layerOf([{ name: 'base', content: 'x' }], 'none')
    const [one, two] = [imageOf([shared], { env: ['N=1'] }), imageOf([shared], { env: ['N=2'] })]
    const manifest = [0, 1].map(i => ({ Config: `${i}.json`, RepoTags: [`app:${i}`], Layers: [`${i}/layer.tar`] }))
    const archive = await tarOf([
      { name: '0/layer.tar', content: shared.blob },
      { name: '1/layer.tar', type: 'symlink', linkname: '../0/layer.tar' },
      { name: '0.json', content: one.config },
      { name: '1.json', content: two.config },
      { name: 'manifest.json', content: json(manifest) },
    ])
    const daemon = await imageDaemon('')
    const done = await daemon.import(archive)
    expect(done.events.at(-1)?.data).toMatchObject({ items: [{ id: one.id }, { id: two.id }] })
    expect((await daemon.stored('blobs/sha256')).toSorted()).toEqual(
      [shared.digest, one.id, two.id].map(digest => digest.slice(7)).toSorted(),
    )
  })

  it('that is an OCI layout is imported under its own name or under the given one', async () => {
    const image = await plainImage()
    const daemon = await imageDaemon('')
    const named = await daemon.import(await layoutArchive(image, 'registry.local/app:7'))
    expect(named.image).toMatchObject({ id: image.id, references: ['registry.local/app:7'], manifest_digest: image.digest })
    expect((await daemon.import(await layoutArchive(image), 'other:1')).image?.references).toContain('docker.io/library/other:1')
    expect(await daemon.import(await layoutArchive(image))).toMatchObject({ status: 400, error: { code: 'INVALID_REQUEST' } })
  })

  it('that is still being uploaded when the daemon stops fails with SHUTTING_DOWN', async () => {
    const daemon = await imageDaemon('')
    const body = Readable.from(endless())
    const reply = daemon.fetch('/v1/images/import', {
      method: 'POST',
      headers: { 'content-type': 'application/x-tar' },
      body: Readable.toWeb(body) as BodyInit,
      duplex: 'half',
    } as RequestInit)
    await until(async () => (await daemon.stored('import')).length > 0)
    const closed = daemon.close()
    const response = await reply
    expect([response.status, await response.json()]).toMatchObject([503, { error: { code: 'SHUTTING_DOWN' } }])
    body.destroy()
    await closed
  })

  it.each<[string, () => Promise<Buffer> | Buffer, string]>([
    ['not an archive', () => Buffer.from('x'.repeat(5000)), 'IMAGE_INVALID'],
    ['empty', () => Buffer.alloc(0), 'IMAGE_INVALID'],
    ['compressed garbage', () => gzipSync(Buffer.alloc(5000, 'x')), 'IMAGE_INVALID'],
    ['an archive of something else', () => tarOf([{ name: 'README', content: 'x' }]), 'IMAGE_INVALID'],
    [
      'truncated',
      async () => (await savedArchive([{ image: await plainImage(), tags: ['a:1'] }])).subarray(0, 700),
      'IMAGE_INVALID',
    ],
    ['missing a layer', () => tarOf(withoutLayer), 'IMAGE_INVALID'],
    ['a layout whose blob does not match its digest', wrongBlob, 'IMAGE_DIGEST_MISMATCH'],
    ['an image whose layer does not match its diff id', wrongLayer, 'IMAGE_DIGEST_MISMATCH'],
    ['an image whose layer has a path outside the root', climbing, 'IMAGE_INVALID'],
  ])('that is %s is refused and leaves no file', async (_, archive, code) => {
    const daemon = await imageDaemon('')
    const { error } = await daemon.import(await archive())
    expect(error?.code).toBe(code)
    for (const folder of ['blobs/sha256', 'layers', 'import'] as const) expect(await daemon.stored(folder)).toEqual([])
    expect((await daemon.call('GET', '/v1/images')).body).toMatchObject({ total: 0 })
  })

  it('that is larger than images.max_bytes is refused during the upload', async () => {
    const daemon = await imageDaemon('images: { max_bytes: 100000 }\n')
    const { error } = await daemon.import(await savedArchive([{ image: await plainImage('x', 1_000_000), tags: ['a:1'] }]))
    expect(error).toMatchObject({ code: 'IMAGE_TOO_LARGE', detail: { max: 100000 } })
    expect(await daemon.stored('import')).toEqual([])
  })

  it('is checked against allowed_images', async () => {
    const daemon = await imageDaemon('allowed_images: [app:1]\n')
    const archive = await savedArchive([{ image: await plainImage(), tags: ['app:2'] }])
    expect((await daemon.import(archive)).error?.code).toBe('IMAGE_NOT_ALLOWED')
    expect((await daemon.import(archive, 'app:3')).error?.code).toBe('IMAGE_NOT_ALLOWED')
    expect((await daemon.import(archive, 'app:1')).image?.references).toEqual(['docker.io/library/app:1'])
  })
})

const withoutLayer: Entry[] = [
  {
    name: 'c.json',
    content: imageOf([{ tar: Buffer.alloc(0), diffId: sha256(''), blob: Buffer.alloc(0), digest: sha256(''), mediaType: '' }])
      .config,
  },
  { name: 'manifest.json', content: json([{ Config: 'c.json', RepoTags: ['a:1'], Layers: ['l/layer.tar'] }]) },
]

/** The beginning of an archive that never ends. */
async function* endless(): AsyncGenerator<Buffer> {
  yield (await tarOf([{ name: 'l/layer.tar', content: 'x' }])).subarray(0, 700)
  await new Promise(() => undefined)
}

async function wrongBlob(): Promise<Buffer> {
  const image = await plainImage()
  const [layer] = image.layers
  const named = { digest: image.digest, size: 1, annotations: { 'org.opencontainers.image.ref.name': 'a:1' } }
  return await tarOf([
    { name: 'index.json', content: json({ schemaVersion: 2, manifests: [named] }) },
    { name: `blobs/sha256/${image.digest.slice(7)}`, content: image.manifest },
    { name: `blobs/sha256/${image.id.slice(7)}`, content: image.config },
    { name: `blobs/sha256/${layer?.digest.slice(7)}`, content: 'something else' },
  ])
}

async function wrongLayer(): Promise<Buffer> {
  const [right, wrong] = [await layerOf([{ name: 'f', content: 'right' }]), await layerOf([{ name: 'f', content: 'wrong' }])]
  return await savedArchive([{ image: imageOf([{ ...wrong, diffId: right.diffId }]), tags: ['a:1'] }])
}

async function climbing(): Promise<Buffer> {
  return await savedArchive([{ image: imageOf([await layerOf([{ name: 'a/../../b', content: 'x' }])]), tags: ['a:1'] }])
}
