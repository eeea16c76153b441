import { describe, expect, it } from 'vitest'
import { secretsInScope, secretsNaming, secretsOfHost } from './scope.ts'
import { request } from './secrets.fixture.ts'

const matches = (scope: string, url: string) => {
  const { hostname, port, protocol, host } = new URL(url)
  const target = url.slice(url.indexOf(host) + host.length) || '/'
  const head = request([], { scheme: protocol === 'http:' ? 'http' : 'https', host: hostname, port: Number(port || 443), target })
  return secretsInScope([{ scopes: [scope] }], head).length === 1
}

describe('the scope of a secret', () => {
  it.each([
    ['api.example.com', 'https://api.example.com/any/path?q=1'],
    ['api.example.com', 'https://api.example.com/a/../b'],
    ['*.example.com', 'https://a.example.com/'],
    ['*.example.com', 'https://a.b.example.com/'],
    ['api?.example.com', 'https://api1.example.com/'],
    ['api.example.com:8443', 'https://api.example.com:8443/'],
    ['example.com/api/*', 'https://example.com/api/'],
    ['example.com/api/*', 'https://example.com/api/v1/x?q=/../'],
    ['example.com/api/*', 'https://example.com/api/group%2Fproject'],
    ['example.com/a b', 'https://example.com/a%20b'],
    ['example.com/api', 'https://example.com/api?x=1'],
    ['example.com:8443/api/*', 'https://example.com:8443/api/x'],
  ])('%s includes %s', (scope, url) => {
    expect(matches(scope, url)).toBe(true)
  })

  it.each([
    ['api.example.com', 'https://example.com/'],
    ['api.example.com', 'https://api.example.com.evil.test/'],
    ['api.example.com', 'https://xapi.example.com/'],
    ['api.example.com', 'https://api.example.com:8443/'],
    ['api.example.com:8443', 'https://api.example.com/'],
    ['*.example.com', 'https://example.com/'],
    ['api?.example.com', 'https://api.example.com/'],
    ['api.example.com', 'http://api.example.com:443/'],
    ['example.com/api', 'https://example.com/api/x'],
    ['example.com/api/*', 'https://example.com/apix'],
    ['example.com/api/*', 'https://example.com/api/../admin'],
    ['example.com/api/*', 'https://example.com/api/%2e%2e/admin'],
    ['example.com/api/*', 'https://example.com/api/%252e%252e/admin'],
    ['example.com/api/*', 'https://example.com/api/..'],
    ['example.com/api/*', 'https://example.com/api/..;/admin'],
    ['example.com/api/*', 'https://example.com/api/x%5c..%5cadmin'],
    ['example.com/api/*', 'https://example.com/api/%00'],
    ['example.com/api/*', 'https://example.com/api/%zz'],
    ['example.com/api/*', 'https://example.com/api/%c0%ae%c0%ae/admin'],
    ['', 'https://example.com/'],
  ])('%s excludes %s', (scope, url) => {
    expect(matches(scope, url)).toBe(false)
  })

  it('without its path tells whose values a host can return', () => {
    const secrets = [{ scopes: ['other.test', 'example.com/api/*'] }, { scopes: ['example.com:8443'] }]
    expect(secretsNaming(secrets, 'example.com')).toEqual(secrets.slice(0, 2))
    expect(secretsOfHost(secrets, 'example.com', 443)).toEqual([secrets[0]])
    expect(secretsOfHost(secrets, 'example.com', 8443)).toEqual([secrets[1]])
    expect(secretsOfHost(secrets, 'example.org', 443)).toEqual([])
  })
})
