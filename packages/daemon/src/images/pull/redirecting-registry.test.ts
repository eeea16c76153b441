// SECURITY: a registry may redirect to any address, and a reference may name any host as a registry.
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { describe, expect, it, onTestFinished } from 'vitest'
import { FakeRegistry } from '../testing/fake-registry.fixture.ts'
import { plainImage } from '../testing/image.fixture.ts'
import { imageDaemon } from '../testing/image-daemon.fixture.ts'

describe('a registry that redirects', () => {
  it('has its blobs fetched from the target, without its credentials', async () => {
    const [registry, storage] = [await new FakeRegistry().listen(), await new FakeRegistry().listen()]
    const image = await plainImage()
    storage.push('app', '1', image)
    registry.push('app', '1', image)
    registry.trick = (request, response, path) => {
      if (request.headers.authorization === undefined) response.writeHead(401, { 'www-authenticate': 'Basic realm="x"' }).end()
      else if (path.includes('/blobs/')) response.writeHead(307, { location: storage.url + path }).end()
      else return false
      return true
    }
    const config = `registries:
  '${registry.host}': { plain_http: true, username: me, password: hidden }
  '${storage.host}': { plain_http: true }
`
    const daemon = await imageDaemon(config)
    expect((await daemon.pull(`${registry.host}/app:1`)).error).toBeUndefined()
    expect(storage.requests).toHaveLength(2)
    for (const { headers } of storage.requests) expect(headers.authorization).toBeUndefined()
    expect(JSON.stringify(daemon.logged)).not.toContain('hidden')
  })

  it('to a host that asks for credentials: the host gets none', async () => {
    const [registry, storage] = [await new FakeRegistry().listen(), await new FakeRegistry().listen()]
    registry.push('app', '1', await plainImage())
    registry.trick = (request, response, path) => {
      if (request.headers.authorization === undefined) response.writeHead(401, { 'www-authenticate': 'Basic realm="x"' }).end()
      else if (path.includes('/blobs/')) response.writeHead(307, { location: storage.url + path }).end()
      else return false
      return true
    }
    storage.trick = (_request, response) => {
      response.writeHead(401, { 'www-authenticate': `Bearer realm="${storage.url}/token"` }).end()
      return true
    }
    const daemon = await imageDaemon(`registries:
  '${registry.host}': { plain_http: true, username: me, password: hidden }
  '${storage.host}': { plain_http: true }
`)
    expect((await daemon.pull(`${registry.host}/app:1`)).error?.code).toBe('REGISTRY_DENIED')
    expect(storage.requests.map(({ path }) => path)).not.toContain('/token')
    for (const { headers } of storage.requests) expect(headers.authorization).toBeUndefined()
  })

  it('to a host without TLS that is not configured is not followed', async () => {
    const [registry, storage] = [await new FakeRegistry().listen(), await new FakeRegistry().listen()]
    const image = await plainImage()
    registry.push('app', '1', image)
    registry.trick = (_request, response, path) => {
      if (!path.includes('/blobs/')) return false
      response.writeHead(307, { location: storage.url + path }).end()
      return true
    }
    const daemon = await imageDaemon(registry.config)
    expect((await daemon.pull(`${registry.host}/app:1`)).error).toMatchObject({
      code: 'REGISTRY_FAILED',
      message: expect.stringContaining('no TLS'),
    })
    expect(storage.requests).toEqual([])
  })

  it('to the metadata address is not followed, and a token server there is not asked', async () => {
    for (const trick of ['redirect', 'realm'] as const) {
      const registry = await new FakeRegistry().listen()
      registry.trick = (_request, response) => {
        const there = 'https://169.254.169.254/latest/meta-data'
        if (trick === 'redirect') response.writeHead(302, { location: there }).end()
        else response.writeHead(401, { 'www-authenticate': `Bearer realm="${there}"` }).end()
        return true
      }
      const daemon = await imageDaemon(registry.config)
      expect((await daemon.pull(`${registry.host}/app:1`)).error).toMatchObject({
        code: 'REGISTRY_FAILED',
        message: expect.stringContaining('169.254.169.254 is not an address of a registry'),
      })
    }
  })

  it('is not contacted if it has such an address itself', async () => {
    const daemon = await imageDaemon("registries: { '169.254.169.254': { plain_http: true } }\n")
    expect((await daemon.pull('169.254.169.254/latest/meta-data')).error?.message).toContain('is not an address of a registry')
    expect((await daemon.pull('[::ffff:169.254.169.254]:80/x')).error?.message).toContain('is not an address of a registry')
  })
})

describe('an unavailable registry', () => {
  it('is reported with its address and the reason: refused connection, no TLS, unknown name', async () => {
    const daemon = await imageDaemon('')
    const plain = createServer((_request, response) => void response.end()).listen(0, '127.0.0.1')
    onTestFinished(() => void plain.close())
    await new Promise(resolve => plain.once('listening', resolve))
    const { port } = plain.address() as AddressInfo
    expect((await daemon.pull(`127.0.0.1:${port}/x`)).error).toMatchObject({
      code: 'REGISTRY_FAILED',
      message: expect.stringMatching(/: TLS failed: [\w ]+$/),
      hint: expect.stringContaining(`'127.0.0.1:${port}': { plain_http: true }`),
    })
    const hint = expect.stringContaining('check the name, the network of this machine')
    const refused = (await daemon.pull('127.0.0.1:1/x')).error
    expect(refused).toMatchObject({ message: expect.stringContaining('ECONNREFUSED'), hint })
    expect((await daemon.pull('registry.invalid/x')).error).toMatchObject({ code: 'REGISTRY_FAILED', hint })
  })

  it('that lacks the image is reported as IMAGE_NOT_FOUND', async () => {
    const registry = await new FakeRegistry().listen()
    const daemon = await imageDaemon(registry.config)
    expect((await daemon.pull(`${registry.host}/none:1`)).error).toMatchObject({
      code: 'IMAGE_NOT_FOUND',
      message: expect.stringContaining('has no image'),
    })
  })
})
