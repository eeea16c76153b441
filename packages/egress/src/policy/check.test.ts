import { describe, expect, it } from 'vitest'
import { policyOf } from './policy.fixture.ts'
import { checkUrl } from './policy.ts'

const WRITTEN = {
  domains: ['example.com', 'pinned.com', '[2001:db8::1]'],
  url_prefixes: [
    { host: 'api.example.com', path: '/v1/*', methods: ['GET'] },
    { host: 'gql.example.com', path: '/', graphql: { queries: true } },
  ],
  tcp: ['db.example.com:5432'],
  pass_through: ['pinned.com'],
}
const policy = policyOf(WRITTEN)

describe('a check of a URL', () => {
  it.each([
    ['https://example.com', 'GET', 'test: domains example.com'],
    ['HTTP://EXAMPLE.com:80/x?y', 'POST', 'test: domains example.com'],
    ['wss://example.com?x', 'GET', 'test: domains example.com'],
    ['https://[2001:DB8::1]/', 'GET', 'test: domains [2001:db8::1]'],
    ['https://api.example.com/v1/x', 'GET', 'test: url_prefixes GET api.example.com/v1/*'],
    ['https://gql.example.com/?query=%7Ba%7D', 'GET', 'test: url_prefixes gql.example.com/ graphql queries'],
    ['tcp://db.example.com:5432', 'GET', 'test: tcp db.example.com:5432'],
    ['https://pinned.com/x', 'GET', 'test: pass_through pinned.com'],
    ['http://pinned.com/x', 'GET', 'test: domains pinned.com'],
  ])('%s with %s is allowed by a rule', (url, method, rule) => {
    expect(checkUrl(policy, url, method)).toMatchObject({ allowed: true, rule })
  })

  it.each([
    ['https://evil.com', 'GET', 'no rule allows the host evil.com'],
    ['https://api.example.com/v2/x', 'GET', 'the host api.example.com is allowed, but not this path: api.example.com/v2/x'],
    ['https://api.example.com/v1/x', 'PUT', 'api.example.com/v1/x is allowed with GET, not with PUT'],
    ['https://api.example.com/v1/../v2', 'GET', 'the path has a . or .. segment, a backslash or a control character'],
    [
      'https://gql.example.com/',
      'POST',
      'gql.example.com/ is allowed for GraphQL queries; the operations of this request have not been read',
    ],
    [
      'https://gql.example.com/?query=mutation%7Ba%7D',
      'GET',
      'gql.example.com/ is allowed for GraphQL queries; this request has mutation',
    ],
    [
      'http://169.254.169.254/latest',
      'GET',
      '169.254.169.254 is a link-local or metadata address; only a policy that lists 169.254.169.254 under private allows it',
    ],
    ['tcp://db.example.com:3306', 'GET', 'no rule allows db.example.com:3306'],
    ['tcp://example.com:443', 'GET', 'only HTTP and TLS are allowed here; TCP needs a tcp rule'],
    ['tcp://db.example.com', 'GET', 'the URL needs a port from 1 to 65535'],
    ['https://example.com:99999', 'GET', 'the URL needs a port from 1 to 65535'],
    ['https://0x7f.1/', 'GET', 'the host is not a valid host name or IP address; other characters than ASCII need punycode'],
    ['https://user@example.com/', 'GET', 'not a URL of http, https, ws, wss or tcp, or it has user information'],
    ['https://example.com:443@evil.com/', 'GET', 'not a URL of http, https, ws, wss or tcp, or it has user information'],
    ['ftp://example.com', 'GET', 'not a URL of http, https, ws, wss or tcp, or it has user information'],
    ['', 'GET', 'not a URL of http, https, ws, wss or tcp, or it has user information'],
  ])('%s with %s is refused with a reason', (url, method, reason) => {
    expect(checkUrl(policy, url, method)).toEqual({ allowed: false, rule: null, reason })
  })

  it('tells when a person is asked, and when the mode lets it pass', () => {
    const ask = policyOf(WRITTEN, { mode: 'ask' })
    expect(checkUrl(ask, 'https://evil.com', 'GET').reason).toBe('no rule allows the host evil.com; a person is asked')
    expect(checkUrl(ask, 'tcp://evil.com:22', 'GET').reason).toBe('no rule allows evil.com:22; a person is asked')
    expect(checkUrl(policyOf(WRITTEN, { mode: 'observe' }), 'https://evil.com', 'GET')).toEqual({
      allowed: true,
      rule: null,
      reason: 'no rule allows the host evil.com; mode observe lets it pass',
    })
  })
})
