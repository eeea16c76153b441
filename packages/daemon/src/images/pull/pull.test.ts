import { readFileSync, statSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, it } from 'vitest'
import { until } from '../../testing/daemon.fixture.ts'
import { ARCHITECTURE } from '../manifest.ts'
import { FakeRegistry } from '../testing/fake-registry.fixture.ts'
import { imageOf, json, layerOf, plainImage } from '../testing/image.fixture.ts'
import { imageDaemon, progressOf } from '../testing/image-daemon.fixture.ts'

const MiB = 1024 * 1024

describe('a pull', () => {
  it('downloads layers of every compression, unpacks them, and reports the progress of each', async () => {
    const registry = await new FakeRegistry().listen()
    const image = imageOf(
      [
        await layerOf([{ name: 'a', content: '1' }], 'none'),
        await layerOf([{ name: 'a', content: '2' }], 'gzip'),
        await layerOf([{ name: 'a', content: '3' }], 'zstd'),
      ],
      { env: ['GREETING=hi'] },
    )
    registry.push('team/app', '1', image)
    const daemon = await imageDaemon(registry.config)
    const pulled = await daemon.pull(`${registry.host}/team/app:1`)
    expect(pulled.error).toBeUndefined()
    expect(pulled.image).toMatchObject({
      id: image.id,
      references: [`${registry.host}/team/app:1`],
      manifest_digest: image.digest,
      source: 'registry',
      architecture: ARCHITECTURE,
      config: { Env: ['GREETING=hi'] },
    })
    expect(image.layers.map(({ diffId }) => readFileSync(`${daemon.layer(diffId)}/a`, 'utf8'))).toEqual(['1', '2', '3'])
    const done = progressOf(pulled).filter(({ phase }) => phase === 'done')
    expect(new Set(done.map(({ digest }) => digest))).toEqual(new Set(image.layers.map(({ digest }) => digest)))
    for (const { done_bytes, total_bytes } of done) expect(done_bytes).toBe(total_bytes)
  })

  it('finds the manifest for this platform in an index, and accepts Docker’s own formats', async () => {
    const registry = await new FakeRegistry().listen()
    const image = imageOf([await layerOf([{ name: 'f', content: 'x' }], 'docker')], { docker: true })
    registry.push('app', 'one', image)
    const foreign = { digest: `sha256:${'0'.repeat(64)}`, size: 1, platform: { os: 'linux', architecture: 'sparc' } }
    const ours = { digest: image.digest, size: image.manifest.length, platform: { os: 'linux', architecture: ARCHITECTURE } }
    registry.put('/v2/app/manifests/many', json({ schemaVersion: 2, manifests: [foreign, ours] }))
    registry.put('/v2/app/manifests/other', json({ schemaVersion: 2, manifests: [foreign] }))
    const daemon = await imageDaemon(registry.config)
    expect((await daemon.pull(`${registry.host}/app:many`)).image?.id).toBe(image.id)
    expect((await daemon.pull(`${registry.host}/app@${image.digest}`)).image?.references).toContain(
      `${registry.host}/app@${image.digest}`,
    )
    expect((await daemon.pull(`${registry.host}/app:other`)).error).toMatchObject({
      code: 'IMAGE_INVALID',
      message: expect.stringContaining('linux/sparc'),
    })
  })

  it('refuses an image for another platform', async () => {
    const registry = await new FakeRegistry().listen()
    registry.push('app', '1', imageOf([await layerOf([])], { architecture: 's390x' }))
    const daemon = await imageDaemon(registry.config)
    expect((await daemon.pull(`${registry.host}/app:1`)).error?.message).toContain('it is for linux/s390x')
  })

  it('downloads no stored layer, and nothing for a stored image with another name', async () => {
    const registry = await new FakeRegistry().listen()
    const shared = await layerOf([{ name: 'base', content: 'shared' }])
    const [first, second] = [
      imageOf([shared, await layerOf([{ name: 'x', content: '1' }])]),
      imageOf([shared, await layerOf([{ name: 'x', content: '2' }])]),
    ]
    registry.push('a', '1', first)
    registry.push('b', '1', second)
    registry.push('c', '1', second)
    const daemon = await imageDaemon(registry.config)
    await daemon.pull(`${registry.host}/a:1`)
    registry.requests.length = 0
    await daemon.pull(`${registry.host}/b:1`)
    expect(registry.blobRequests.map(({ path }) => path.split('/').at(-1))).not.toContain(shared.digest)
    registry.requests.length = 0
    expect((await daemon.pull(`${registry.host}/c:1`)).image?.references).toEqual([
      `${registry.host}/b:1`,
      `${registry.host}/c:1`,
    ])
    expect(registry.blobRequests).toEqual([])
  })

  it('does the work once for two concurrent requests', async () => {
    const registry = await new FakeRegistry().listen()
    const image = await plainImage('once', 2 * MiB)
    registry.push('app', '1', image)
    const daemon = await imageDaemon(registry.config)
    const both = await Promise.all([daemon.pull(`${registry.host}/app:1`), daemon.pull(`${registry.host}/app:1`)])
    expect(both.map(({ image: got }) => got?.id)).toEqual([image.id, image.id])
    const [layer] = image.layers
    expect(registry.blobRequests.filter(({ path }) => path.endsWith(layer?.digest ?? ''))).toHaveLength(1)
  })

  it('resumes after a lost connection, also if the registry does not support ranges', async () => {
    for (const knowsRanges of [true, false]) {
      const registry = await new FakeRegistry().listen()
      const image = await plainImage(`broken ${knowsRanges}`, 3 * MiB)
      const [layer] = image.layers
      registry.push('app', '1', image)
      let cuts = 2
      registry.trick = (request, response, path) => {
        if (!path.endsWith(layer?.digest ?? '') || !layer) return false
        if (!knowsRanges) delete request.headers.range
        if (cuts-- <= 0) return false
        const from = Number(/\d+/.exec(request.headers.range ?? '0')?.[0])
        response.writeHead(from > 0 ? 206 : 200, {
          'content-length': layer.blob.length - from,
          'content-range': `bytes ${from}-/`,
        })
        response.write(layer.blob.subarray(from, from + MiB), () => response.destroy())
        return true
      }
      const daemon = await imageDaemon(registry.config)
      const pulled = await daemon.pull(`${registry.host}/app:1`)
      expect(pulled.error).toBeUndefined()
      const asked = registry.blobRequests.filter(({ path }) => path.endsWith(layer?.digest ?? ''))
      expect(asked).toHaveLength(3)
      await daemon.close()
    }
  })

  it('that is aborted leaves a partial download, and the next pull requests only the rest', async () => {
    const registry = await new FakeRegistry().listen()
    const image = await plainImage('resumed', 4 * MiB)
    const [layer] = image.layers
    registry.push('app', '1', image)
    const stalled = Promise.withResolvers<void>()
    registry.trick = (_request, response, path) => {
      if (!layer || !path.endsWith(layer.digest)) return false
      response.writeHead(200, { 'content-length': layer.blob.length })
      response.write(layer.blob.subarray(0, 2 * MiB), () => stalled.resolve())
      return true
    }
    const daemon = await imageDaemon(registry.config)
    const gone = new AbortController()
    const given = daemon.pull(`${registry.host}/app:1`, gone.signal)
    await stalled.promise
    const part = `${layer?.digest.slice(7)}.part`
    const partPath = join(daemon.dataDir, 'images/blobs/sha256', part)
    await until(() => (statSync(partPath, { throwIfNoEntry: false })?.size ?? 0) > 0)
    gone.abort()
    await expect(given).rejects.toThrow()
    await until(async () => (await daemon.stored('layers')).length === 0)
    await until(() => daemon.context.images.pulls.size === 0)
    registry.trick = () => false
    registry.requests.length = 0
    expect((await daemon.pull(`${registry.host}/app:1`)).image?.id).toBe(image.id)
    const [asked] = registry.blobRequests.filter(({ path }) => path.endsWith(layer?.digest ?? ''))
    expect(Number(/^bytes=(\d+)-$/.exec(asked?.headers.range ?? '')?.[1])).toBeGreaterThan(0)
    expect(await daemon.stored('blobs/sha256')).not.toContain(part)
    expect(readFileSync(`${daemon.layer(layer?.diffId ?? '')}/hello`, 'utf8')).toBe('resumed')
  })

  it('of an image that is not in allowed_images is refused before the first request', async () => {
    const registry = await new FakeRegistry().listen()
    registry.push('app', '1', await plainImage())
    const daemon = await imageDaemon(`${registry.config}allowed_images: ['${registry.host}/app:1', host]\n`)
    expect(await daemon.pull(`${registry.host}/app:2`)).toMatchObject({ status: 403, error: { code: 'IMAGE_NOT_ALLOWED' } })
    expect(registry.requests).toEqual([])
    expect((await daemon.pull(`${registry.host}/app:1`)).error).toBeUndefined()
  })

  it('that fails suggests the stored image with the nearest name', async () => {
    const registry = await new FakeRegistry().listen()
    const { host } = registry
    registry.push('team/python', '3.12', await plainImage())
    const daemon = await imageDaemon(registry.config)
    await daemon.pull(`${host}/team/python:3.12`)
    const suggestion = { hint: `did you mean ${host}/team/python:3.12, which is stored here?` }
    expect((await daemon.pull(`${host}/team/pyton:3.12`)).error).toMatchObject({ code: 'IMAGE_NOT_FOUND', ...suggestion })
    expect((await daemon.pull(`${host}/team/golang:1`)).error).toMatchObject({
      code: 'IMAGE_NOT_FOUND',
      hint: expect.not.stringContaining('did you mean'),
    })
    await registry.close()
    expect((await daemon.pull(`${host}/team/pyton:3.12`)).error).toMatchObject({ code: 'REGISTRY_FAILED', ...suggestion })
  })

  it('refuses an invalid reference, host, and an unknown id', async () => {
    const daemon = await imageDaemon('')
    expect(await daemon.pull('No Reference')).toMatchObject({ status: 400, error: { code: 'INVALID_REQUEST' } })
    expect(await daemon.pull('host')).toMatchObject({ status: 400 })
    expect(await daemon.pull(`sha256:${'0'.repeat(64)}`)).toMatchObject({ status: 404, error: { code: 'IMAGE_NOT_FOUND' } })
  })
})
