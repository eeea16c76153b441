import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { Policy, PolicyCheckRequest, splitPort, UrlRule } from './policies.ts'

const accepts = (policy: unknown) => Policy.safeParse(policy).success

describe('a policy', () => {
  it('may be empty, and then all its lists are', () => {
    expect(Policy.parse({})).toEqual({
      include: [],
      domains: [],
      url_prefixes: [],
      tcp: [],
      ports: [],
      private: [],
      pass_through: [],
    })
  })

  it('has no unknown fields and no null in the place of a list', () => {
    expect(accepts({ domain: ['example.com'] })).toBe(false)
    expect(accepts({ url_prefixes: [{ host: 'example.com', method: ['GET'] }] })).toBe(false)
    for (const list of ['include', 'domains', 'url_prefixes', 'tcp', 'ports', 'private', 'pass_through']) {
      expect(accepts({ [list]: null })).toBe(false)
      expect(accepts({ [list]: 'example.com' })).toBe(false)
      expect(accepts({ [list]: [null] })).toBe(false)
    }
  })

  it.each([
    'example.com',
    'localhost',
    'EXAMPLE.com',
    '*.example.com',
    'a*.example.com',
    '*.b.co.uk',
    'api-?.example.com:8443',
    'my_bucket.example.com',
    'xn--mller-kva.de',
    '192.0.2.1',
    '192.0.2.1:8080',
    '[2001:db8::1]',
    '[2001:db8::1]:443',
    `${'a'.repeat(63)}.com:65535`,
  ])('may list the domain %s', domain => {
    expect(Policy.parse({ domains: [domain] }).domains).toEqual([domain.toLowerCase()])
  })

  it.each([
    '',
    '*',
    '*:443',
    '*.com',
    '*.*',
    'example.*',
    'foo*example.com',
    '*.co.uk',
    '*.com.au',
    'a.*.co.uk.*',
    '*.*.co.jp',
    '?.de',
    'a..com',
    '.example.com',
    'example.com..',
    '*.com.',
    'example.com:',
    'example.com:0',
    'example.com:080',
    'example.com:65536',
    'example.com:80:80',
    'example.com:*',
    'https://example.com',
    'example.com/path',
    'user@example.com',
    'exa mple.com',
    'example.com\n',
    'exam\0ple.com',
    'müller.de',
    'example\uff0ecom',
    '127.1',
    '0x7f.1',
    '0x7f000001',
    '2130706433',
    '010.0.0.1',
    '256.1.1.1',
    '*.0.0.1',
    '1.2.3.*',
    '2001:db8::1',
    '[fe80::1%eth0]',
    '[192.0.2.1]',
    '[::1',
    `${'a'.repeat(64)}.com`,
    `${'a.'.repeat(130)}com`,
  ])('may not list the domain %j', domain => {
    expect(accepts({ domains: [domain] })).toBe(false)
  })

  it('may end a host with a dot, which is dropped', () => {
    const given = {
      domains: ['Example.com.', 'example.com.:8443'],
      tcp: ['db.example.com.:5432'],
      pass_through: ['a.example.com.'],
    }
    expect(Policy.parse(given)).toMatchObject({
      domains: ['example.com', 'example.com:8443'],
      tcp: ['db.example.com:5432'],
      pass_through: ['a.example.com'],
    })
  })

  it('has TCP rules with one host and one port', () => {
    expect(accepts({ tcp: ['db.example.com:5432', '10.0.0.1:22', '[::1]:5432'] })).toBe(true)
    for (const rule of ['db.example.com', '*.example.com:5432', 'db.example.com:0', 'db.example.com:', ':5432', '::1:5432']) {
      expect(accepts({ tcp: [rule] })).toBe(false)
    }
  })

  it('names private hosts one by one', () => {
    expect(accepts({ private: ['db.internal', '10.0.0.1', '[fd00::1]'] })).toBe(true)
    for (const host of ['*.internal', '*.example.com', '10.0.0.0/8', '10.0.0.*', 'db.internal:5432']) {
      expect(accepts({ private: [host] })).toBe(false)
    }
  })

  it('says which entry of which list is wrong', () => {
    const issues = Policy.safeParse({ domains: ['example.com', '*.com'] }).error?.issues
    expect(issues?.map(({ path }) => path)).toEqual([['domains', 1]])
    expect(issues?.[0]?.message).toBe('"*.com" is too wide: the last two labels cannot have a wildcard')
  })

  it.each([
    ['domains', 'https://example.com/foo', /^"https:.*" is a URL; write example\.com here, or host and path under url_prefixes$/],
    ['domains', 'https://example.com:8443/', / is a URL; write example\.com:8443 here/],
    ['domains', 'https://*/', / is a URL; write a host alone/],
    ['domains', 'example.com/foo', / has a path; write example\.com here/],
    ['domains', '*.co.uk', / is too wide: the last three labels/],
    ['domains', 'müller.de', / is not ASCII; write the name in punycode: xn--mller-kva\.de$/],
    ['domains', 'a.example.com - b.example.com', / has a space in it$/],
    ['domains', 'example.com:0', / has no valid port; /],
    ['domains', '2001:db8::1', /: write an IPv6 address in brackets, such as \[2001:db8::1\]$/],
    ['domains', '127.1', / ends in a number, but is no IPv4 address/],
    ['domains', 'a..com', / is not a host; write example\.com/],
    ['domains', '', /^must not be empty$/],
    ['domains', 'x'.repeat(300), /^must have at most 260 characters$/],
    ['private', '10.0.0.0/8', / is a range of addresses; /],
    ['pass_through', 'https://example.com/', / is a URL; write example\.com$/],
    ['pass_through', 'example.com:443', / has a port, which cannot be given here; write example\.com$/],
    ['tcp', 'db.example.com', / has no port; write host:port, such as db\.example\.com:5432$/],
    ['tcp', '*.example.com:5432', / has a wildcard; /],
    ['tcp', 'https://example.com', / is a URL; write example\.com:443$/],
  ])('says what is wrong in %s with %s', (list, host, message) => {
    expect(Policy.safeParse({ [list]: [host] }).error?.issues).toMatchObject([{ message: expect.stringMatching(message) }])
  })

  it('never quotes a URL with a password', () => {
    const { error } = Policy.safeParse({ domains: ['https://me:hunter2@example.com/'], private: ['me:hunter2@example.com'] })
    expect(error?.issues).toHaveLength(2)
    expect(JSON.stringify(error?.issues)).not.toContain('hunter2')
  })

  it('has at most 2000 rules in a list', () => {
    expect(accepts({ domains: Array.from({ length: 2000 }, (_, i) => `a${i}.com`) })).toBe(true)
    expect(accepts({ domains: Array.from({ length: 2001 }, (_, i) => `a${i}.com`) })).toBe(false)
  })
})

describe('a URL rule', () => {
  it('means every path and method unless it names some', () => {
    expect(UrlRule.parse({ host: 'Example.com' })).toEqual({ host: 'example.com', path: '', methods: [] })
    expect(UrlRule.parse({ host: 'example.com', path: '/a b/*', methods: ['get', 'M-SEARCH'] })).toEqual({
      host: 'example.com',
      path: '/a b/*',
      methods: ['GET', 'M-SEARCH'],
    })
  })

  it.each(['api', '/a%20b', '/a/../b', '/..', '/./a', '/a/.', '/a\\b', '/a\0', '/a\n', `/${'a'.repeat(2048)}`])(
    'may not have the path %j',
    path => {
      expect(UrlRule.safeParse({ host: 'example.com', path }).success).toBe(false)
    },
  )

  it.each(['/...', '/.git', '/100%', '/a?', '*', '*.json', '/ü'])('may have the path %j', path => {
    expect(UrlRule.safeParse({ host: 'example.com', path }).success).toBe(true)
  })

  it('may not have a method that is none', () => {
    for (const method of ['', 'G T', 'GET\n', '*', 'a'.repeat(33)]) {
      expect(UrlRule.safeParse({ host: 'example.com', methods: [method] }).success).toBe(false)
    }
  })

  it('has no port: those are in `ports` and in domains', () => {
    expect(UrlRule.safeParse({ host: 'example.com:8443' }).success).toBe(false)
  })

  it('allows no GraphQL operation that it does not name', () => {
    expect(UrlRule.parse({ host: 'example.com', graphql: { queries: true } }).graphql).toEqual({
      queries: true,
      mutations: false,
      subscriptions: false,
    })
    expect(UrlRule.safeParse({ host: 'example.com', graphql: { all: true } }).success).toBe(false)
  })
})

describe('a rule with a port', () => {
  it('is split behind the brackets of an IPv6 address', () => {
    expect(splitPort('example.com')).toEqual(['example.com', null])
    expect(splitPort('example.com:443')).toEqual(['example.com', '443'])
    expect(splitPort('[::1]')).toEqual(['[::1]', null])
    expect(splitPort('[::1]:443')).toEqual(['[::1]', '443'])
  })

  it('that is accepted always has a host and a port in range', () => {
    fc.assert(
      fc.property(fc.string({ unit: fc.constantFrom('a', '.', ':', '1', '0', '[', ']', '*', '6', '5'), maxLength: 12 }), text => {
        if (!accepts({ tcp: [text] })) return
        const [host, port] = splitPort(text)
        expect(host).not.toBe('')
        expect(Number(port)).toBeGreaterThanOrEqual(1)
        expect(Number(port)).toBeLessThanOrEqual(65_535)
      }),
      { numRuns: 2000 },
    )
  })
})

describe('a check of a URL', () => {
  it('is for GET unless it names a method, which is in upper case', () => {
    expect(PolicyCheckRequest.parse({ url: 'https://example.com' }).method).toBe('GET')
    expect(PolicyCheckRequest.parse({ url: 'https://example.com', method: 'post' }).method).toBe('POST')
  })
})
