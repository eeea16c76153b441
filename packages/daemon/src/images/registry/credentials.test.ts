import { describe, expect, it } from 'vitest'
import { FakeRegistry } from '../testing/fake-registry.fixture.ts'
import { plainImage } from '../testing/image.fixture.ts'
import { imageDaemon } from '../testing/image-daemon.fixture.ts'
import { basicOf, withoutCredentials } from './credentials.ts'

describe('what a registry says', () => {
  it.each(['Basic', 'Bearer'])('is not repeated when it has the %s credentials in it', async scheme => {
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
    expect(error).toMatchObject({ code: 'REGISTRY_DENIED', message: expect.stringContaining('it answers 403') })
    expect(registry.requests.at(-1)?.headers.authorization).toMatch(scheme)
  })

  it('is looked through for every form of them, and else is as it was', () => {
    const account = { username: 'me', password: 'Hidden+1' }
    const credentials = { ...account, authorization: 'Bearer T0ken' }
    const basic = basicOf(account)
    for (const secret of ['T0ken', 'Hidden+1', 'Hidden%2B1', basic, basic.slice(6).replace(/=+$/, ''), 'https://t0ken.example'])
      expect(withoutCredentials(`no ${secret}.`, credentials)).toBe('')
    expect(withoutCredentials('me may not pull', credentials)).toBe('me may not pull')
    expect(withoutCredentials('nobody may pull', { authorization: '' })).toBe('nobody may pull')
  })
})
