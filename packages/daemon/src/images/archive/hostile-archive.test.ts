import { gzipSync, zstdCompressSync } from 'node:zlib'
import type { ImageList } from '@sandglass/contract'
import { describe, expect, it } from 'vitest'
import { imageOf, json, layerOf, savedArchive, sha256, type TestImage, tarOf } from '../testing/image.fixture.ts'
import { imageDaemon } from '../testing/image-daemon.fixture.ts'

const layer = await layerOf([{ name: 'f', content: 'x' }], 'none')

/** An image with additional settings in its configuration. */
function withSettings(settings: Readonly<Record<string, unknown>>): TestImage {
  const image = imageOf([layer], { env: ['A=1'] })
  const plain = JSON.parse(image.config.toString())
  const config = json({ ...plain, config: { ...plain.config, ...settings } })
  return { ...image, config, id: sha256(config) }
}

describe('an archive', () => {
  it('may repeat a name, and the last entry counts', async () => {
    const image = imageOf([layer])
    const archive = await tarOf([
      { name: 'c', content: 'something else' },
      { name: 'c', content: image.config },
      { name: 'l', content: layer.blob },
      { name: 'manifest.json', content: json([{ Config: 'c', RepoTags: ['x:1'], Layers: ['l'] }]) },
    ])
    expect((await (await imageDaemon('')).import(archive)).image?.id).toBe(image.id)
  })

  it('with too many entries is refused, also if they share a name', async () => {
    const archive = await tarOf(Array.from({ length: 10_001 }, () => ({ name: 'a' })))
    expect((await (await imageDaemon('')).import(archive)).error).toMatchObject({
      code: 'IMAGE_INVALID',
      message: expect.stringContaining('more than 10000 files'),
    })
  })
})

describe('an archive', () => {
  it.each([gzipSync, zstdCompressSync])(
    'that decompresses to more zeros than images.max_bytes is refused: %o',
    async compress => {
      const daemon = await imageDaemon('images: { max_bytes: 100000 }\n')
      const archive = Buffer.concat([
        await savedArchive([{ image: imageOf([layer]), tags: ['x:1'] }]),
        Buffer.alloc(80 * 2 ** 20),
      ])
      expect((await daemon.import(compress(archive))).error).toMatchObject({ code: 'IMAGE_TOO_LARGE' })
    },
  )

  it('may be imported several times at once', async () => {
    const daemon = await imageDaemon('')
    const image = imageOf([layer])
    const archives = await Promise.all(Array.from({ length: 6 }, (_, i) => savedArchive([{ image, tags: [`x:${i}`] }])))
    const imported = await Promise.all(archives.map(archive => daemon.import(archive)))
    expect(imported.map(({ image, error }) => image?.id ?? error)).toEqual(archives.map(() => image.id))
  })
})

describe('the index of an archive', () => {
  it('of docker save may name an image many times, and the image is imported once', async () => {
    const image = imageOf([layer])
    const entries = Array.from({ length: 800 }, (_, i) => ({ Config: 'c', RepoTags: [`x:${i % 3}`], Layers: ['l'] }))
    const archive = await tarOf([
      { name: 'l', content: layer.blob },
      { name: 'c', content: image.config },
      { name: 'manifest.json', content: json(entries) },
    ])
    const daemon = await imageDaemon('')
    expect((await daemon.import(archive)).events.at(-1)?.data).toMatchObject({
      items: [{ id: image.id, references: ['docker.io/library/x:0', 'docker.io/library/x:1', 'docker.io/library/x:2'] }],
    })
    expect((await daemon.import(archive, 'one:1')).error).toBeUndefined()
  })

  it('of an OCI layout may name an image many times, and the image is imported once', async () => {
    const image = imageOf([layer])
    const again = json({ ...JSON.parse(image.manifest.toString()), annotations: { other: 'manifest' } })
    const blobs = [image.config, image.manifest, again, layer.blob]
    const manifests = Array.from({ length: 250 }, (_, i) => ({
      digest: i % 2 === 0 ? image.digest : sha256(again),
      size: 1,
      annotations: { 'org.opencontainers.image.ref.name': `x:${i % 2}` },
    }))
    const archive = await tarOf([
      { name: 'index.json', content: json({ schemaVersion: 2, manifests }) },
      ...blobs.map(blob => ({ name: `blobs/sha256/${sha256(blob).slice(7)}`, content: blob })),
    ])
    const { events } = await (await imageDaemon('')).import(archive)
    expect(events.at(-1)?.data).toMatchObject({
      items: [{ id: image.id, references: ['docker.io/library/x:0', 'docker.io/library/x:1'] }],
    })
  })

  it('is refused if it has too many images or too many names', async () => {
    const images = Array.from({ length: 101 }, (_, i) => ({ image: imageOf([layer], { env: [`N=${i}`] }), tags: [`x:${i}`] }))
    const tags = Array.from({ length: 1001 }, (_, i) => `x:${i}`)
    const daemon = await imageDaemon('')
    expect((await daemon.import(await savedArchive(images))).error).toMatchObject({
      code: 'IMAGE_TOO_LARGE',
      detail: { what: 'images', max: 100 },
    })
    expect((await daemon.import(await savedArchive([{ image: imageOf([layer]), tags }]))).error).toMatchObject({
      code: 'IMAGE_TOO_LARGE',
      detail: { what: 'names', max: 1000 },
    })
    const long = await savedArchive([{ image: imageOf([layer]), tags: [`${'x'.repeat(600)}:1`] }])
    expect((await daemon.import(long)).error?.code).toBe('INVALID_REQUEST')
  })
})

describe('the settings of an image', () => {
  it('are shown without the largest ones if they are too long', async () => {
    const daemon = await imageDaemon('')
    const settings = { Labels: { long: 'x'.repeat(3_900_000) }, WorkingDir: '/here' }
    const image = withSettings(settings)
    expect((await daemon.import(await savedArchive([{ image, tags: ['x:1'] }]))).image?.id).toBe(image.id)
    const { body } = await daemon.call('GET', '/v1/images?limit=200')
    expect((body as ImageList).items[0]?.config).toEqual({ Env: ['A=1'], WorkingDir: '/here' })
    await daemon.create({ image: 'x:1' })
    expect(daemon.backend.prepared.at(-1)).toMatchObject({ id: image.id, env: { A: '1' } })
  })

  it('may be nested too deeply to serialise, and are then left out', async () => {
    const daemon = await imageDaemon('')
    const plain = withSettings({ Deep: 'deep', Cmd: ['sh'] })
    const config = Buffer.from(plain.config.toString().replace('"deep"', '['.repeat(1_000_000) + ']'.repeat(1_000_000)))
    const image = { ...plain, config, id: sha256(config) }
    expect((await daemon.import(await savedArchive([{ image, tags: ['x:1'] }]))).error).toBeUndefined()
    const { body } = await daemon.call('GET', '/v1/images')
    expect((body as ImageList).items).toMatchObject([{ id: image.id, config: { Cmd: ['sh'] } }])
    expect((body as ImageList).items[0]?.config).not.toHaveProperty('Deep')
  })
})
