import { existsSync } from 'node:fs'
import { mkdir, utimes, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { describe, expect, it } from 'vitest'
import { temporaryFolder, until } from '../../testing/daemon.fixture.ts'
import { FakeRegistry } from '../testing/fake-registry.fixture.ts'
import { imageOf, layerOf, plainImage, savedArchive } from '../testing/image.fixture.ts'
import { imageDaemon } from '../testing/image-daemon.fixture.ts'

const encoded = (ref: string) => `/v1/images/${encodeURIComponent(ref)}`

describe('stored images', () => {
  it('are listed newest first in pages, and shown by reference, id and id prefix', async () => {
    let now = Date.now()
    const daemon = await imageDaemon('', { now: () => now })
    const images = [await plainImage('1'), await plainImage('2'), await plainImage('3')]
    for (const [i, image] of images.entries()) {
      now += 1000
      await daemon.import(await savedArchive([{ image, tags: [`app:${i}`] }]))
    }
    const first = (await daemon.call('GET', '/v1/images?limit=2')).body as {
      items: { id: string }[]
      total: number
      next_cursor: string
    }
    expect(first).toMatchObject({ total: 3, limit: 2, items: [{ id: images[2]?.id }, { id: images[1]?.id }] })
    const second = (await daemon.call('GET', `/v1/images?cursor=${first.next_cursor}`)).body
    expect(second).toMatchObject({ items: [{ id: images[0]?.id }], next_cursor: null })
    const [image] = images
    for (const ref of ['app:0', 'docker.io/library/app:0', image?.id ?? '', image?.id.slice(7, 19) ?? ''])
      expect((await daemon.call('GET', encoded(ref))).body).toMatchObject({ id: image?.id })
    for (const ref of ['app:9', `sha256:${'0'.repeat(64)}`, 'host'])
      expect((await daemon.call('GET', encoded(ref))).status).toBe(404)
    expect((await daemon.call('GET', encoded('No Such'))).status).toBe(400)
  })

  it('lose one name at a time, and are removed with the last name, except for shared layers', async () => {
    const daemon = await imageDaemon('')
    const shared = await layerOf([{ name: 'base', content: 'x' }])
    const [one, two] = [
      imageOf([shared, await layerOf([{ name: '1', content: '1' }])]),
      imageOf([shared, await layerOf([{ name: '2', content: '2' }])]),
    ]
    await daemon.import(await savedArchive([{ image: one, tags: ['one:1', 'one:2'] }]))
    await daemon.import(await savedArchive([{ image: two, tags: ['two:1'] }]))
    expect((await daemon.call('DELETE', encoded('one:1'))).body).toMatchObject({
      removed: false,
      references: ['docker.io/library/one:1'],
    })
    expect((await daemon.call('GET', encoded('one:2'))).status).toBe(200)
    expect((await daemon.call('DELETE', encoded('one:2'))).body).toMatchObject({ removed: true, id: one.id })
    expect(await daemon.stored('layers')).toEqual(two.layers.map(({ diffId }) => diffId.slice(7)).toSorted())
    expect(await daemon.stored('blobs/sha256')).toEqual(
      [two.id, ...two.layers.map(({ digest }) => digest)].map(digest => digest.slice(7)).toSorted(),
    )
    expect((await daemon.call('DELETE', encoded(two.id.slice(7, 20)))).body).toMatchObject({ removed: true })
    for (const folder of ['layers', 'blobs/sha256'] as const) expect(await daemon.stored(folder)).toEqual([])
    expect((await daemon.call('DELETE', encoded('two:1'))).status).toBe(404)
  })
})

describe('a session from an image', () => {
  it('pulls a missing image, keeps it when the tag moves, and protects it from removal', async () => {
    const registry = await new FakeRegistry().listen()
    const [before, after] = [await plainImage('before'), await plainImage('after')]
    registry.push('app', '1', before)
    const daemon = await imageDaemon(registry.config)
    const ref = `${registry.host}/app:1`
    const session = await daemon.create({ image: ref, name: 'one' })
    registry.push('app', '1', after)
    await daemon.pull(ref)
    expect((await daemon.call('GET', encoded(ref))).body).toMatchObject({ id: after.id })
    // The old image has no name any more, but the session still uses it.
    expect((await daemon.call('GET', encoded(before.id))).body).toMatchObject({ references: [] })
    await daemon.call('POST', `/v1/sessions/${session.id}/stop`)
    expect((await daemon.call('POST', `/v1/sessions/${session.id}/start`)).status).toBe(200)
    const refused = await daemon.call('DELETE', encoded(before.id))
    expect(refused).toMatchObject({ status: 409, body: { error: { code: 'IMAGE_IN_USE', detail: { sessions: ['one'] } } } })
    const other = await daemon.create({ image: ref, name: 'two' })
    expect((await daemon.call('DELETE', encoded(ref))).status).toBe(409)
    await daemon.call('DELETE', `/v1/sessions/${session.id}`)
    await daemon.call('DELETE', `/v1/sessions/${other.id}`)
    expect((await daemon.call('DELETE', encoded(ref))).body).toMatchObject({ removed: true })
    // The nameless image is removed by the next prune.
    for (const folder of ['layers', 'blobs/sha256'] as const) expect(await daemon.stored(folder)).toEqual([])
  })

  it('updates the time of last use of its image', async () => {
    let now = Date.now()
    const daemon = await imageDaemon('', { now: () => now })
    await daemon.import(await savedArchive([{ image: await plainImage(), tags: ['app:1'] }]))
    now += 60_000
    const session = await daemon.create({ image: 'app:1' })
    const used = async () => ((await daemon.call('GET', encoded('app:1'))).body as { last_used_at: string }).last_used_at
    expect(await used()).toBe(new Date(now).toISOString())
    await daemon.call('POST', `/v1/sessions/${session.id}/stop`)
    now += 60_000
    await daemon.call('POST', `/v1/sessions/${session.id}/start`)
    expect(await used()).toBe(new Date(now).toISOString())
  })

  it('gets the image’s layers, environment and id, and is refused if the registry lacks the image', async () => {
    const registry = await new FakeRegistry().listen()
    const image = imageOf([await layerOf([{ name: 'f', content: 'x' }], 'zstd')], { env: ['A=1', 'HOME=/root', 'B=x=y'] })
    registry.push('app', '1', image)
    const daemon = await imageDaemon(registry.config)
    await daemon.create({ image: `${registry.host}/app:1` })
    expect(daemon.backend.prepared.at(-1)).toMatchObject({
      kind: 'layers',
      id: image.id,
      reference: `${registry.host}/app:1`,
      layers: [{ diffId: image.layers[0]?.diffId, compression: 'zstd' }],
      env: { A: '1', B: 'x=y' },
    })
    const refused = await daemon.call('POST', '/v1/sessions', { image: `${registry.host}/none:1` })
    expect(refused).toMatchObject({ status: 404, body: { error: { code: 'IMAGE_NOT_FOUND' } } })
    expect((await daemon.call('GET', '/v1/sessions')).body).toMatchObject({ total: 1 })
  })

  it('has the default_image of the configuration if its request names none', async () => {
    const daemon = await imageDaemon('default_image: app:1\n')
    const image = await plainImage()
    await daemon.import(await savedArchive([{ image, tags: ['app:1', 'app:2'] }]))
    expect(await daemon.create({})).toMatchObject({ image: 'app:1' })
    expect(daemon.backend.prepared.at(-1)).toMatchObject({ kind: 'layers', id: image.id, reference: 'app:1' })
    expect(await daemon.create({ image: 'app:2' })).toMatchObject({ image: 'app:2' })
  })

  it('is allowed by the full name of its image, also if the request has a short form, or by its id', async () => {
    const daemon = await imageDaemon('')
    const image = await plainImage()
    await daemon.import(await savedArchive([{ image, tags: ['app:1', 'other:1'] }]))
    await daemon.close()
    const again = await imageDaemon(`allowed_images: ['docker.io/library/app:1', '${image.id}']\n`, { dataDir: daemon.dataDir })
    expect((await again.call('POST', '/v1/sessions', { image: 'app:1' })).status).toBe(201)
    expect((await again.call('POST', '/v1/sessions', { image: image.id.slice(7, 22) })).status).toBe(201)
    expect((await again.call('POST', '/v1/sessions', { image: 'app:2' })).status).toBe(403)
    expect((await again.call('POST', '/v1/sessions', { image: 'host' })).status).toBe(403)
  })
})

describe('the daemon at its start', () => {
  it('removes unfinished imports and layers, keeps partial downloads for a day, and removes blobs of no image', async () => {
    const dataDir = await temporaryFolder()
    const images = join(dataDir, 'images')
    const [blobs, layers] = [join(images, 'blobs/sha256'), join(images, 'layers')]
    const old = new Date(Date.now() - 25 * 3600 * 1000)
    for (const folder of [
      blobs,
      layers,
      join(images, 'import/archive-x'),
      join(layers, `${'a'.repeat(64)}.123.new`),
      join(layers, 'b'.repeat(64)),
    ])
      await mkdir(folder, { recursive: true })
    for (const name of ['1'.repeat(64), `${'2'.repeat(64)}.part`, '3'.repeat(64), `${'4'.repeat(64)}.part`])
      await writeFile(join(blobs, name), 'x')
    for (const name of ['1'.repeat(64), `${'2'.repeat(64)}.part`]) await utimes(join(blobs, name), old, old)
    const daemon = await imageDaemon('', { dataDir })
    await until(async () => (await daemon.stored('blobs/sha256')).length === 2)
    expect(await daemon.stored('blobs/sha256')).toEqual(['3'.repeat(64), `${'4'.repeat(64)}.part`])
    await until(async () => (await daemon.stored('layers')).length === 0)
    await until(() => !existsSync(join(images, 'import/archive-x')))
  })
})
