import { describe, expect, it } from 'vitest'
import { MODES, policiesOf, policyOf, type Written } from './policy.fixture.ts'
import { decideRequest, type PolicyRequest } from './policy.ts'

const get = (host: string, target = '/', others: Partial<PolicyRequest> = {}): PolicyRequest => ({
  host,
  port: 443,
  method: 'GET',
  target,
  ...others,
})

const decide = (written: Written, request: PolicyRequest) => decideRequest(policyOf(written), request)

describe('a request', () => {
  it('to a listed domain is allowed with every path and method, and the log can name the rule', () => {
    expect(decide({ domains: ['example.com'] }, get('example.com', '/a?b', { method: 'DELETE' }))).toEqual({
      allowed: true,
      outcome: 'allowed',
      rule: 'test: domains example.com',
      reason: 'allowed by test: domains example.com',
    })
  })

  it('to any other host is refused', () => {
    const policy = { domains: ['example.com', '*.example.org'] }
    for (const host of [
      'evil.com',
      'a.example.com',
      'example.org',
      'example.com.evil.com',
      'xexample.com',
      'example.co',
      '8.8.8.8',
    ]) {
      expect(decide(policy, get(host))).toEqual({
        allowed: false,
        outcome: 'blocked',
        rule: null,
        reason: `no rule allows the host ${host}`,
      })
    }
    expect(decide(policy, get('a.b.example.org')).allowed).toBe(true)
  })

  it('is allowed by a rule in other case', () => {
    expect(decide({ domains: ['EXAMPLE.com'] }, get('example.com')).allowed).toBe(true)
    expect(decide({ domains: ['*.EXAMPLE.com'] }, get('a.example.com')).allowed).toBe(true)
  })

  it('is refused on a port that the rule does not have', () => {
    const policy = { domains: ['example.com', 'alt.example.com:8443'] }
    expect(decide(policy, get('example.com', '/', { port: 80 })).allowed).toBe(true)
    expect(decide(policy, get('example.com', '/', { port: 8443 })).reason).toBe(
      'the host example.com is allowed on port 80, 443, not on port 8443',
    )
    expect(decide(policy, get('alt.example.com', '/', { port: 8443 })).allowed).toBe(true)
    expect(decide(policy, get('alt.example.com')).reason).toBe(
      'the host alt.example.com is allowed on port 8443, not on port 443',
    )
  })

  it('may use `ports`, of the hosts of the same policy alone', () => {
    const policy = policiesOf([{ domains: ['a.com'], url_prefixes: [{ host: 'b.com' }], ports: [8080] }, { domains: ['c.com'] }])
    expect(decideRequest(policy, get('a.com', '/', { port: 8080 })).allowed).toBe(true)
    expect(decideRequest(policy, get('b.com', '/', { port: 8080 })).allowed).toBe(true)
    expect(decideRequest(policy, get('c.com', '/', { port: 8080 })).allowed).toBe(false)
  })

  it('is matched by path without query, after one decoding', () => {
    const policy = {
      url_prefixes: [
        { host: 'example.com', path: '/api' },
        { host: 'example.com', path: '/pub lic/*' },
      ],
    }
    expect(decide(policy, get('example.com', '/api?x=/secret')).rule).toBe('test: url_prefixes example.com/api')
    expect(decide(policy, get('example.com', '/%61pi')).allowed).toBe(true)
    expect(decide(policy, get('example.com', '/pub%20lic/x')).allowed).toBe(true)
    for (const target of ['/api/x', '/ap', '/API', '/pub%20lic', '/pub%2520lic/x', '*']) {
      expect(decide(policy, get('example.com', target)).reason).toContain('the host example.com is allowed, but not this path: ')
    }
  })

  it('is matched by method, in upper case', () => {
    const policy = { url_prefixes: [{ host: 'example.com', path: '/api/*', methods: ['get', 'HEAD'] }] }
    expect(decide(policy, get('example.com', '/api/x')).rule).toBe('test: url_prefixes GET,HEAD example.com/api/*')
    expect(decide(policy, get('example.com', '/api/x?y', { method: 'POST' })).reason).toBe(
      'example.com/api/x is allowed with GET, HEAD, not with POST',
    )
    expect(decide(policy, get('example.com', '/api/x', { method: 'get' })).allowed).toBe(false)
    expect(decide(policy, get('example.com', '/api/x', { method: 'GET ' })).allowed).toBe(false)
  })

  it('needs one rule that allows all of it: conditions of two rules are not mixed', () => {
    const policy = {
      url_prefixes: [
        { host: 'example.com', path: '/a', methods: ['GET'] },
        { host: 'example.com', path: '/b', methods: ['POST'] },
      ],
    }
    expect(decide(policy, get('example.com', '/a', { method: 'POST' })).allowed).toBe(false)
    expect(decide(policy, get('example.com', '/b')).allowed).toBe(false)
  })

  it.each(['/a/../b', '/a%2f..%2fb', '/a\\b', '/%00', '/%zz'])(
    'with the malformed path %j is refused in every mode and network',
    target => {
      for (const mode of MODES) {
        for (const network of ['allowlist', 'nat'] as const) {
          const policy = policyOf({ domains: ['example.com'] }, { mode, network })
          expect(decideRequest(policy, get('example.com', target)).outcome).toBe('blocked')
        }
      }
    },
  )

  it.each(['evil.com\0.example.com', 'A.example.com', 'a.example.com.', '0x7f.1', '[::1]', '', 'a@b.example.com'])(
    'to %j, which is not a normalised host, is refused in every mode and network',
    host => {
      for (const mode of MODES) {
        for (const network of ['allowlist', 'nat'] as const) {
          const policy = policyOf({ domains: ['*.example.com'] }, { mode, network })
          expect(decideRequest(policy, get(host)).outcome).toBe('blocked')
        }
      }
    },
  )

  it('to an address needs a rule with that address: no wildcard matches one', () => {
    const policy = { domains: ['*.0.0.1.example.com', '8.8.8.8', '[2001:db8::1]'] }
    expect(decide(policy, get('8.8.8.8')).allowed).toBe(true)
    expect(decide(policy, get('2001:db8::1')).allowed).toBe(true)
    expect(decide(policy, get('9.9.9.9')).allowed).toBe(false)
  })

  it('to a private address needs `private` too, and nobody is asked about it', () => {
    const rule = { domains: ['10.0.0.1', '169.254.169.254'] }
    for (const mode of MODES) {
      expect(decideRequest(policyOf(rule, { mode }), get('10.0.0.1')).outcome).toBe('blocked')
      expect(decideRequest(policyOf({}, { mode }), get('169.254.169.254')).outcome).toBe('blocked')
    }
    expect(decide({ ...rule, private: ['10.0.0.1'] }, get('10.0.0.1')).allowed).toBe(true)
    expect(decide({ private: ['10.0.0.1'] }, get('10.0.0.1')).allowed).toBe(false)
  })

  it('is allowed by a tcp rule for its host and port', () => {
    const policy = { tcp: ['example.com:8080'] }
    expect(decide(policy, get('example.com', '/', { port: 8080 })).rule).toBe('test: tcp example.com:8080')
    expect(decide(policy, get('example.com')).allowed).toBe(false)
  })

  it('has a reason that is safe to print', () => {
    const policy = { url_prefixes: [{ host: 'example.com', path: '/a', methods: ['GET'] }] }
    const hostile = decide(policy, get('example.com', `/\u00c2\u009b${'x'.repeat(5000)}`)).reason
    expect(hostile).toMatch(/^[ -~]{1,400}$/)
    expect(decide(policy, get('example.com', '/a', { method: '\u001b[2J' })).reason).toMatch(/^[ -~]+$/)
  })
})

describe('a request with GraphQL', () => {
  const policy = {
    url_prefixes: [{ host: 'api.example.com', path: '/graphql', graphql: { queries: true, subscriptions: true } }],
  }
  const post = get('api.example.com', '/graphql', { method: 'POST' })

  it('is undecided until the operations have been read', () => {
    for (const mode of MODES) {
      expect(decideRequest(policyOf(policy, { mode }), post)).toMatchObject({ allowed: false, needsGraphql: true })
    }
  })

  it('is allowed if every operation is', () => {
    expect(decide(policy, { ...post, graphql: ['query', 'subscription'] })).toMatchObject({
      allowed: true,
      rule: 'test: url_prefixes api.example.com/graphql graphql queries,subscriptions',
    })
    expect(decide(policy, { ...post, graphql: ['query', 'mutation'] }).reason).toBe(
      'api.example.com/graphql is allowed for GraphQL queries, subscriptions; this request has query, mutation',
    )
    expect(decide(policy, { ...post, graphql: 'unreadable' }).reason).toContain('this request cannot be read as GraphQL')
    expect(decide(policy, { ...post, graphql: [] }).reason).toContain('this request has no operation')
  })

  it('needs no body where another rule, or network nat, allows it', () => {
    expect(decide({ ...policy, domains: ['api.example.com'] }, post)).toMatchObject({
      allowed: true,
      rule: 'test: domains api.example.com',
    })
    expect(decideRequest(policyOf(policy, { network: 'nat' }), post)).toMatchObject({ allowed: true, rule: 'network nat' })
  })

  it('needs no body where host, path or method are wrong', () => {
    expect(decide(policy, get('api.example.com', '/rest')).needsGraphql).toBeUndefined()
    expect(decide(policy, get('example.com', '/graphql')).needsGraphql).toBeUndefined()
  })

  it('is not allowed by a rule that names no kind', () => {
    const none = { url_prefixes: [{ host: 'api.example.com', graphql: {} }] }
    expect(decide(none, { ...post, graphql: ['query'] }).allowed).toBe(false)
    expect(decide(none, { ...post, graphql: [] }).allowed).toBe(false)
  })
})
