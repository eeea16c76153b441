import { readFileSync } from 'node:fs'
import { describe, expect, it } from 'vitest'
import { dockerRegistry } from '../testing/docker-registry.fixture.ts'
import { FakeRegistry } from '../testing/fake-registry.fixture.ts'
import { imageOf, layerOf, plainImage } from '../testing/image.fixture.ts'
import { imageDaemon } from '../testing/image-daemon.fixture.ts'

const MiB = 1024 * 1024

describe('Docker’s own registry', () => {
  it('is used without TLS if the configuration allows that for its host', async () => {
    const registry = await dockerRegistry()
    const image = imageOf([
      await layerOf([{ name: 'f', content: 'x' }], 'gzip'),
      await layerOf([{ name: 'g', content: 'y' }], 'zstd'),
    ])
    await registry.push('team/app', '1', image)
    const daemon = await imageDaemon(`registries: { '${registry.host}': { plain_http: true } }\n`)
    const pulled = await daemon.pull(`${registry.host}/team/app:1`)
    expect(pulled.image).toMatchObject({ id: image.id, manifest_digest: image.digest })
    expect(readFileSync(`${daemon.layer(image.layers[1]?.diffId ?? '')}/g`, 'utf8')).toBe('y')
    const strict = await imageDaemon('')
    expect((await strict.pull(`${registry.host}/team/app:1`)).error?.code).toBe('REGISTRY_FAILED')
  })

  it('is used with TLS if its certificate authority is configured, and with a password', async () => {
    const registry = await dockerRegistry({ isTls: true, account: 'me:hidden' })
    const image = await plainImage('private', MiB)
    await registry.push('app', '1', image)
    const ref = `${registry.host}/app:1`
    const config = (more: string) => `registries: { '${registry.host}': { ${more} } }\n`
    const ca = `ca_file: ${registry.certificate}`
    const refusals = {
      'username: me': 'REGISTRY_FAILED',
      [ca]: 'REGISTRY_DENIED',
      [`${ca}, username: me, password: wrong`]: 'REGISTRY_DENIED',
    }
    for (const [settings, code] of Object.entries(refusals)) {
      const daemon = await imageDaemon(config(settings))
      expect((await daemon.pull(ref)).error?.code).toBe(code)
      expect(JSON.stringify(daemon.logged)).not.toContain('wrong')
      await daemon.close()
    }
    const daemon = await imageDaemon(config(`${ca}, username: me, password: hidden`))
    expect((await daemon.pull(ref)).image?.id).toBe(image.id)
    expect((await daemon.pull(`${registry.host}/app@${image.digest}`)).image?.id).toBe(image.id)
    expect((await daemon.pull(`${registry.host}/none`)).error?.code).toBe('IMAGE_NOT_FOUND')
    expect(JSON.stringify(daemon.logged)).not.toContain('hidden')
  })
})

describe('a registry with a token server', () => {
  it('is asked again with the token from its token server', async () => {
    const registry = await new FakeRegistry().listen()
    const image = await plainImage()
    registry.push('team/app', '1', image)
    const asked: { url: string; authorization: string | undefined }[] = []
    registry.trick = (request, response, path) => {
      if (path === '/token') {
        asked.push({ url: request.url ?? '', authorization: request.headers.authorization })
        response.end('{"access_token":"t-123"}')
        return true
      }
      if (request.headers.authorization === 'Bearer t-123') return false
      response.writeHead(401, { 'www-authenticate': `Bearer realm="${registry.url}/token",service="reg.test"` }).end()
      return true
    }
    const settings = `registries: { '${registry.host}': { plain_http: true, username: me, password: hidden } }\n`
    const daemon = await imageDaemon(settings)
    expect((await daemon.pull(`${registry.host}/team/app:1`)).image?.id).toBe(image.id)
    expect(asked).toEqual([
      { url: '/token?service=reg.test&scope=repository%3Ateam%2Fapp%3Apull', authorization: `Basic ${btoa('me:hidden')}` },
    ])
  })

  it('reports the reason if it gives no token', async () => {
    const registry = await new FakeRegistry().listen()
    registry.trick = (_request, response, path) => {
      if (path === '/token') response.writeHead(403).end()
      else response.writeHead(401, { 'www-authenticate': `Bearer realm="${registry.url}/token"` }).end()
      return true
    }
    const daemon = await imageDaemon(registry.config)
    expect((await daemon.pull(`${registry.host}/app:1`)).error).toMatchObject({
      code: 'REGISTRY_DENIED',
      message: expect.stringContaining('token server answered 403'),
      hint: expect.stringContaining('registries'),
    })
  })
})
