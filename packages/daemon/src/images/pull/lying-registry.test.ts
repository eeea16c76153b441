// SECURITY: a registry may be an attacker, chosen by the user or placed in the network. Its bytes are trusted only if they match a digest.
import { gzipSync } from 'node:zlib'
import { describe, expect, it } from 'vitest'
import { FakeRegistry } from '../testing/fake-registry.fixture.ts'
import { imageOf, json, layerFrom, layerOf, plainImage, sha256, type TestImage, tarOf } from '../testing/image.fixture.ts'
import { type ImageDaemon, imageDaemon } from '../testing/image-daemon.fixture.ts'

const MiB = 1024 * 1024

async function leavesNothing(daemon: ImageDaemon): Promise<void> {
  expect(await daemon.stored('layers')).toEqual([])
  expect((await daemon.stored('blobs/sha256')).filter(name => name.endsWith('.part'))).toEqual([])
  expect((await daemon.call('GET', '/v1/images')).body).toMatchObject({ total: 0 })
}

async function pullOf(image: TestImage, change: (registry: FakeRegistry) => void, config = '') {
  const registry = await new FakeRegistry().listen()
  registry.push('app', '1', image)
  change(registry)
  const daemon = await imageDaemon(`${registry.config}${config}`)
  return { registry, daemon, pulled: await daemon.pull(`${registry.host}/app:1`) }
}

/** Sends other bytes for one digest. */
const instead = (digest: string, content: Buffer) => (registry: FakeRegistry) => {
  registry.trick = (request, response, path) => {
    if (!path.endsWith(digest)) return false
    registry.send(request, response, content)
    return true
  }
}

describe('a malicious registry', () => {
  it('that sends another layer is detected, and nothing is kept', async () => {
    const image = await plainImage('good')
    const other = await layerOf([{ name: 'hello', content: 'evil' }])
    const { daemon, pulled } = await pullOf(image, instead(image.layers[0]?.digest ?? '', other.blob))
    expect(pulled.error).toMatchObject({ code: 'IMAGE_DIGEST_MISMATCH', detail: { digest: image.layers[0]?.digest } })
    await leavesNothing(daemon)
  })

  it('that sends another layer of the same length is detected, and nothing is kept', async () => {
    const image = imageOf([await layerOf([{ name: 'hello', content: 'good' }], 'none')])
    const other = await layerOf([{ name: 'hello', content: 'evil' }], 'none')
    const { daemon, pulled } = await pullOf(image, instead(image.layers[0]?.digest ?? '', other.blob))
    expect(pulled.error?.code).toBe('IMAGE_DIGEST_MISMATCH')
    await leavesNothing(daemon)
  })

  it('cannot store its files under the diff id of another layer', async () => {
    const [real, evil] = [await layerOf([{ name: 'f', content: 'real' }]), await layerOf([{ name: 'f', content: 'evil' }])]
    const claimed = imageOf([{ ...evil, diffId: real.diffId }])
    const { daemon, pulled } = await pullOf(claimed, () => undefined)
    expect(pulled.error).toMatchObject({ code: 'IMAGE_DIGEST_MISMATCH', detail: { digest: real.diffId } })
    await leavesNothing(daemon)
  })

  it('that sends another configuration or manifest is detected', async () => {
    const image = await plainImage()
    const config = await pullOf(image, instead(image.id, json({ architecture: 'amd64', os: 'linux' })))
    expect(config.pulled.error).toMatchObject({ code: 'IMAGE_DIGEST_MISMATCH', detail: { digest: image.id } })
    const byTag = await pullOf(image, registry => {
      registry.trick = (_request, response, path) => {
        if (!path.endsWith('/manifests/1')) return false
        response.writeHead(200, { 'docker-content-digest': `sha256:${'0'.repeat(64)}` }).end(image.manifest)
        return true
      }
    })
    expect(byTag.pulled.error?.code).toBe('IMAGE_DIGEST_MISMATCH')
    const registry = await new FakeRegistry().listen()
    registry.put(`/v2/app/manifests/${sha256('other')}`, image.manifest)
    const daemon = await imageDaemon(registry.config)
    expect((await daemon.pull(`${registry.host}/app@${sha256('other')}`)).error?.code).toBe('IMAGE_DIGEST_MISMATCH')
    await leavesNothing(daemon)
  })

  it('that sends more bytes than it declared is stopped', async () => {
    const image = await plainImage('long', MiB)
    const [layer] = image.layers
    const { daemon, pulled } = await pullOf(
      image,
      instead(layer?.digest ?? '', Buffer.concat([layer?.blob ?? Buffer.alloc(0), Buffer.alloc(MiB)])),
    )
    expect(pulled.error).toMatchObject({ code: 'IMAGE_DIGEST_MISMATCH', message: expect.stringContaining('more than its') })
    await leavesNothing(daemon)
  })

  it('that never completes a layer fails, and the received bytes are kept for the next pull', async () => {
    const image = await plainImage('short', MiB)
    const [layer] = image.layers
    const { daemon, pulled } = await pullOf(image, registry => {
      registry.trick = (_request, response, path) => {
        if (!layer || !path.endsWith(layer.digest)) return false
        response.writeHead(200, { 'content-length': layer.blob.length })
        response.write(layer.blob.subarray(0, 1000), () => response.destroy())
        return true
      }
    })
    expect(pulled.error).toMatchObject({ code: 'REGISTRY_FAILED' })
    expect(await daemon.stored('layers')).toEqual([])
    expect(await daemon.stored('blobs/sha256')).toEqual([`${layer?.digest.slice(7)}.part`])
  })

  it('that sends an endless manifest or configuration is stopped', async () => {
    const image = await plainImage()
    for (const end of ['/manifests/1', image.id]) {
      const { daemon, pulled } = await pullOf(image, registry => {
        registry.trick = (_request, response, path) => {
          if (!path.endsWith(end)) return false
          response.writeHead(200)
          const more = () => void (response.destroyed || response.write(Buffer.alloc(MiB, 'x'), more))
          more()
          return true
        }
      })
      expect(pulled.error?.code).toBe('IMAGE_TOO_LARGE')
      await leavesNothing(daemon)
    }
  })

  it('that sends an invalid manifest fails with a reason', async () => {
    const wrong = {
      'is not JSON': Buffer.from('<html>'),
      'no layers': json({ schemaVersion: 2, config: { digest: sha256('x'), size: 1 } }),
      'a digest that is a path': json({
        schemaVersion: 2,
        config: { digest: 'sha256:../../../etc/passwd', size: 1 },
        layers: [],
      }),
      'version 1': json({ schemaVersion: 1, fsLayers: [] }),
      'other layers than its configuration': json({
        schemaVersion: 2,
        config: { digest: (await plainImage()).id, size: (await plainImage()).config.length },
        layers: [],
      }),
    }
    for (const content of Object.values(wrong)) {
      const { daemon, pulled } = await pullOf(await plainImage(), registry => registry.put('/v2/app/manifests/1', content))
      expect(pulled.error?.code).toBe('IMAGE_INVALID')
      await leavesNothing(daemon)
    }
  })

  it('that declares too many layers or more than images.max_bytes is refused before the first layer', async () => {
    const layer = await layerOf([{ name: 'f', content: 'x' }])
    const many = await pullOf(imageOf(Array.from({ length: 128 }, () => layer)), () => undefined)
    expect(many.pulled.error).toMatchObject({ code: 'IMAGE_TOO_LARGE', message: expect.stringContaining('layers') })
    const large = await pullOf(await plainImage('large', MiB), () => undefined, 'images: { max_bytes: 100000 }\n')
    expect(large.pulled.error).toMatchObject({ code: 'IMAGE_TOO_LARGE', detail: { max: 100000 } })
    for (const { registry, daemon } of [many, large]) {
      expect(registry.blobRequests).toEqual([])
      await leavesNothing(daemon)
    }
  })

  it('that sends a decompression bomb is stopped at images.max_bytes', async () => {
    const bomb = layerFrom(await tarOf([{ name: 'zeros', content: Buffer.alloc(64 * MiB) }]))
    expect(bomb.blob.length).toBeLessThan(MiB)
    const { daemon, pulled } = await pullOf(imageOf([bomb]), () => undefined, 'images: { max_bytes: 8000000 }\n')
    expect(pulled.error?.code).toBe('IMAGE_TOO_LARGE')
    await leavesNothing(daemon)
  })

  it('that sends several small decompression bombs is stopped as well', async () => {
    const bombs = await Promise.all(
      ['a', 'b', 'c'].map(async name => layerFrom(await tarOf([{ name, content: Buffer.alloc(6 * MiB) }]))),
    )
    const { daemon, pulled } = await pullOf(imageOf(bombs), () => undefined, 'images: { max_bytes: 16000000 }\n')
    expect(pulled.error?.code).toBe('IMAGE_TOO_LARGE')
    await until(daemon)
  })

  it('that sends a layer with an unsafe path is refused, and the entry is named', async () => {
    const { daemon, pulled } = await pullOf(imageOf([await layerOf([{ name: '../../escaped', content: 'x' }])]), () => undefined)
    expect(pulled.error).toMatchObject({
      code: 'IMAGE_INVALID',
      message: expect.stringContaining('../../escaped: its name contains ..'),
    })
    await leavesNothing(daemon)
  })

  it('that sends a layer that cannot be decompressed is refused', async () => {
    const broken = gzipSync(Buffer.alloc(100_000, 'x')).fill(7, 60, 90)
    const layer = { ...layerFrom(Buffer.alloc(100_000, 'x')), blob: broken, digest: sha256(broken) }
    const { daemon, pulled } = await pullOf(imageOf([layer]), () => undefined)
    expect(pulled.error?.code).toMatch(/IMAGE_INVALID|IMAGE_DIGEST_MISMATCH/)
    await leavesNothing(daemon)
  })

  it('that keeps asking for credentials is asked twice and no more', async () => {
    const registry = await new FakeRegistry().listen()
    registry.trick = (_request, response, path) => {
      if (path === '/token') response.writeHead(200).end('{"token":"t"}')
      else response.writeHead(401, { 'www-authenticate': `Bearer realm="${registry.url}/token"` }).end()
      return true
    }
    const daemon = await imageDaemon(registry.config)
    expect((await daemon.pull(`${registry.host}/app:1`)).error?.code).toBe('REGISTRY_DENIED')
    expect(registry.requests.map(({ path }) => path)).toEqual(['/v2/app/manifests/1', '/token', '/v2/app/manifests/1'])
  })

  it('that redirects in a loop fails', async () => {
    const registry = await new FakeRegistry().listen()
    registry.trick = (request, response) => {
      response.writeHead(302, { location: request.url }).end()
      return true
    }
    const daemon = await imageDaemon(registry.config)
    expect((await daemon.pull(`${registry.host}/app:1`)).error).toMatchObject({
      code: 'REGISTRY_FAILED',
      message: expect.stringContaining('redirects more than'),
    })
  })
})

/** The bombs above end at different moments; the parts of those that were within the limit may stay for a while. */
async function until(daemon: ImageDaemon): Promise<void> {
  expect(await daemon.stored('layers')).toEqual([])
  expect((await daemon.call('GET', '/v1/images')).body).toMatchObject({ total: 0 })
}
