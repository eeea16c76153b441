import { describe, expect, it } from 'vitest'
import { FakeRegistry } from '../testing/fake-registry.fixture.ts'
import { plainImage } from '../testing/image.fixture.ts'
import { imageDaemon } from '../testing/image-daemon.fixture.ts'
import { basicOf, parseChallenge, withoutCredentials } from './authentication.ts'

it('a WWW-Authenticate header is parsed, also with several challenges and unusual spelling', () => {
  expect(parseChallenge('Bearer realm="https://auth.x/token",service="x y",scope="repository:a/b:pull,push"')).toEqual({
    scheme: 'bearer',
    params: { realm: 'https://auth.x/token', service: 'x y', scope: 'repository:a/b:pull,push' },
  })
  expect(parseChallenge('BASIC realm="a \\"quoted\\" one"')).toEqual({ scheme: 'basic', params: { realm: 'a "quoted" one' } })
  expect(parseChallenge('Basic realm=x, Bearer realm="https://t", service=s')?.scheme).toBe('bearer')
  expect(parseChallenge('Basic')).toEqual({ scheme: 'basic', params: {} })
  expect(parseChallenge('Bearer service="no realm"')).toBeNull()
  expect(parseChallenge('Digest realm="x"')).toBeNull()
  expect(parseChallenge(undefined)).toBeNull()
})

describe('the message of a registry', () => {
  it.each(['Basic', 'Bearer'])('is not shown if it contains the %s credentials', async scheme => {
    const registry = await new FakeRegistry().listen()
    registry.push('app', '1', await plainImage())
    registry.trick = ({ headers: { authorization } }, response, path) => {
      if (path === '/token') response.end('{"token":"T0ken-of-ours"}')
      else if (authorization === undefined)
        response.writeHead(401, { 'www-authenticate': `${scheme} realm="${registry.url}/token"` }).end()
      else response.writeHead(403).end(JSON.stringify({ errors: [{ message: `${'x'.repeat(190)} ${authorization}` }] }))
      return true
    }
    const daemon = await imageDaemon(
      `registries: { '${registry.host}': { plain_http: true, username: me, password: Hidden+1 } }\n`,
    )
    const { error } = await daemon.pull(`${registry.host}/app:1`)
    expect(error).toMatchObject({ code: 'REGISTRY_DENIED', message: expect.stringContaining('it answered 403') })
    expect(registry.requests.at(-1)?.headers.authorization).toMatch(scheme)
  })

  it('is searched for every encoding of the credentials, and shown unchanged if it has none', () => {
    const account = { username: 'me', password: 'Hidden+1' }
    const credentials = { ...account, authorization: 'Bearer T0ken' }
    const basic = basicOf(account)
    for (const secret of ['T0ken', 'Hidden+1', 'Hidden%2B1', basic, basic.slice(6).replace(/=+$/, ''), 'https://t0ken.example'])
      expect(withoutCredentials(`no ${secret}.`, credentials)).toBe('')
    expect(withoutCredentials('me may not pull', credentials)).toBe('me may not pull')
    expect(withoutCredentials('nobody may pull', { authorization: '' })).toBe('nobody may pull')
  })
})
