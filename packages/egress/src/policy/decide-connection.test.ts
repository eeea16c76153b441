import { describe, expect, it } from 'vitest'
import { MODES, policiesOf, policyOf } from './policy.fixture.ts'
import { decideConnection, decideName, decideRequest, type SessionRule } from './policy.ts'

const get = (host: string, port = 443) => ({ host, port, method: 'GET', target: '/' })

describe('a name', () => {
  const policy = policyOf({
    domains: ['example.com', '*.example.org:8443', 'example.com:9000'],
    url_prefixes: [{ host: 'api.example.com', path: '/v1/*' }],
    tcp: ['db.example.com:5432', 'example.com:22'],
    ports: [8080],
  })

  it.each([
    ['example.com', [22, 80, 443, 8080, 9000]],
    ['api.example.com', [80, 443, 8080]],
    ['a.example.org', [8443]],
    ['db.example.com', [5432]],
  ])('%s gets an address with the ports of its rules', (name, ports) => {
    expect(decideName(policy, name)).toEqual({ answer: 'address', ports })
  })

  it('that no rule names is refused in enforce and ask, and gets an address in observe and nat', () => {
    expect(decideName(policy, 'evil.com')).toEqual({ answer: 'refused' })
    expect(decideName(policyOf({}, { mode: 'ask' }), 'evil.com')).toEqual({ answer: 'refused' })
    expect(decideName(policyOf({ ports: [8080] }, { mode: 'observe' }), 'evil.com')).toEqual({
      answer: 'address',
      ports: [80, 443, 8080],
    })
    expect(decideName(policyOf({ ports: [8080] }, { network: 'nat' }), 'evil.com')).toEqual({
      answer: 'address',
      ports: [80, 443, 8080],
    })
  })

  it.each([
    'localhost',
    'db',
    'printer.local',
    'metadata.google.internal',
    'host.docker.internal',
    'router.home.arpa',
    'x.onion',
  ])('%s is not public: it needs a rule, or `private`', name => {
    for (const options of [{ mode: 'observe' }, { network: 'nat' }] as const) {
      expect(decideName(policyOf({}, options), name).answer).toBe('refused')
      expect(decideName(policyOf({ private: [name] }, options), name).answer).toBe('address')
    }
    expect(decideName(policyOf({ domains: [name] }), name).answer).toBe('address')
  })

  it.each(['EXAMPLE.com', 'example.com.', 'evil\0.example.com', '1.2.3.4', '::1', '127.1', ''])('%j gets no address', name => {
    for (const options of [{}, { mode: 'observe' }, { network: 'nat' }] as const) {
      expect(decideName(policyOf({ domains: ['*.example.com', '1.2.3.4'] }, options), name)).toEqual({ answer: 'refused' })
    }
  })
})

describe('a connection', () => {
  it('with a tcp rule is never parsed, even where an http rule has the same port', () => {
    const policy = policyOf({
      domains: ['example.com:5432'],
      tcp: ['example.com:5432', '[2001:db8::1]:5432'],
      pass_through: ['example.com'],
    })
    const tcp = { kind: 'tcp', rule: 'test: tcp example.com:5432', outcome: 'allowed' }
    expect(decideConnection(policy, { host: 'example.com', port: 5432 })).toEqual(tcp)
    expect(decideConnection(policy, { host: '2001:db8::1', port: 5432 })).toMatchObject({ rule: 'test: tcp [2001:db8::1]:5432' })
  })

  it('to a web port is parsed, so that a refusal can say why', () => {
    const policy = policyOf({ domains: ['example.com', 'example.com:9000'], ports: [8080] })
    for (const port of [80, 443, 8080]) expect(decideConnection(policy, { host: 'evil.com', port })).toEqual({ kind: 'http' })
    expect(decideConnection(policy, { host: 'example.com', port: 9000 })).toEqual({ kind: 'http' })
  })

  it('to any other port is refused, asked about or observed', () => {
    const at = { host: 'example.com', port: 22 }
    const rule = { domains: ['example.com'] }
    const reason = 'the host example.com is allowed on port 80, 443, not on port 22'
    expect(decideConnection(policyOf(rule), at)).toEqual({ kind: 'refused', reason })
    expect(decideConnection(policyOf(rule, { mode: 'ask' }), at)).toEqual({ kind: 'ask', reason })
    expect(decideConnection(policyOf({}, { mode: 'observe' }), at)).toEqual({
      kind: 'tcp',
      rule: 'mode observe',
      outcome: 'observed',
    })
    expect(decideConnection(policyOf(rule, { network: 'nat' }), at)).toEqual({
      kind: 'refused',
      reason: 'network nat allows the ports 80, 443; port 22 needs a rule',
    })
  })

  it('to a private address or a malformed host is refused in every mode', () => {
    for (const mode of MODES) {
      for (const host of ['10.0.0.1', '169.254.169.254', '::1', 'EXAMPLE.com', 'a\0.example.com']) {
        const policy = policyOf({ domains: ['*.example.com'] }, { mode })
        expect(decideConnection(policy, { host, port: 443 }).kind).toBe('refused')
      }
    }
    const policy = policyOf({ tcp: ['10.0.0.1:5432'], private: ['10.0.0.1'] })
    expect(decideConnection(policy, { host: '10.0.0.1', port: 5432 }).kind).toBe('tcp')
  })
})

describe('pass-through', () => {
  const at = { host: 'a.pinned.com', port: 443 }
  const kind = (written: Parameters<typeof policyOf>[0], options = {}, where = at) =>
    decideConnection(policyOf(written, options), where).kind

  it('needs a rule for the host', () => {
    const pass_through = ['*.pinned.com']
    expect(kind({ pass_through, domains: ['*.pinned.com'] })).toBe('pass_through')
    expect(kind({ pass_through, url_prefixes: [{ host: 'a.pinned.com', path: '/*' }] })).toBe('pass_through')
    expect(kind({ pass_through })).toBe('http')
    expect(kind({ pass_through }, { mode: 'ask' })).toBe('http')
    expect(kind({ pass_through }, { mode: 'observe' })).toBe('pass_through')
    expect(kind({ pass_through }, { network: 'nat' })).toBe('pass_through')
    expect(kind({ pass_through, domains: ['*.pinned.com'] }, {}, { ...at, port: 80 })).toBe('http')
  })

  it('does not go around a rule about paths, methods or GraphQL', () => {
    for (const rule of [{ path: '/v1/*' }, { methods: ['GET'] }, { graphql: { queries: true } }]) {
      expect(kind({ pass_through: ['a.pinned.com'], url_prefixes: [{ host: 'a.pinned.com', ...rule }] })).toBe('http')
    }
  })
})

describe('the mode', () => {
  it('is that of the session, else the strictest of the policies, else enforce', () => {
    expect(policyOf({}).mode).toBe('enforce')
    expect(policiesOf([{ mode: 'observe' }, {}]).mode).toBe('observe')
    expect(policiesOf([{ mode: 'observe' }, { mode: 'ask' }]).mode).toBe('ask')
    expect(policiesOf([{ mode: 'ask' }, { mode: 'enforce' }, { mode: 'observe' }]).mode).toBe('enforce')
    expect(policiesOf([{ mode: 'enforce' }], { mode: 'observe' }).mode).toBe('observe')
  })

  it('decides about requests outside the policy, and about no others', () => {
    const outcome = (mode: (typeof MODES)[number], host: string) =>
      decideRequest(policyOf({ domains: ['a.com'] }, { mode }), get(host)).outcome
    expect(MODES.map(mode => outcome(mode, 'b.com'))).toEqual(['blocked', 'ask', 'observed'])
    expect(MODES.map(mode => outcome(mode, 'a.com'))).toEqual(['allowed', 'allowed', 'allowed'])
  })
})

describe('the answer of a person', () => {
  const answer = (allowed: boolean, kind: SessionRule['kind'] = 'http', port = 443) => [{ host: 'a.com', port, kind, allowed }]

  it('allows one host and port', () => {
    const policy = policyOf({}, { mode: 'ask', extra: answer(true) })
    expect(decideRequest(policy, get('a.com'))).toMatchObject({ outcome: 'allowed', rule: 'session: approved a.com:443' })
    expect(decideRequest(policy, get('a.com', 80)).outcome).toBe('ask')
    expect(decideRequest(policy, get('x.a.com')).outcome).toBe('ask')
    expect(decideName(policy, 'a.com')).toEqual({ answer: 'address', ports: [443] })
  })

  it('allows a TCP connection', () => {
    const policy = policyOf({}, { mode: 'ask', extra: answer(true, 'tcp', 22) })
    expect(decideConnection(policy, { host: 'a.com', port: 22 })).toEqual({
      kind: 'tcp',
      rule: 'session: approved tcp a.com:22',
      outcome: 'allowed',
    })
  })

  it('refuses what ask, observe and nat would let pass', () => {
    for (const options of [{ mode: 'ask' }, { mode: 'observe' }, { network: 'nat' }] as const) {
      const policy = policyOf({}, { ...options, extra: [...answer(false), ...answer(false, 'tcp', 22)] })
      expect(decideRequest(policy, get('a.com'))).toMatchObject({
        outcome: 'blocked',
        reason: 'a person has refused a.com:443 for this session',
      })
      expect(decideConnection(policy, { host: 'a.com', port: 22 }).kind).toBe('refused')
    }
  })

  it('does not refuse what a rule allows', () => {
    const policy = policyOf({ domains: ['a.com'] }, { mode: 'ask', extra: answer(false) })
    expect(decideRequest(policy, get('a.com')).outcome).toBe('allowed')
  })

  it('does not open a private address', () => {
    const policy = policyOf({}, { mode: 'ask', extra: [{ host: '10.0.0.1', port: 443, kind: 'http', allowed: true }] })
    expect(decideRequest(policy, get('10.0.0.1')).outcome).toBe('blocked')
  })
})

describe('network nat', () => {
  const nat = policyOf({ ports: [8080] }, { network: 'nat' })

  it('allows every public host on web ports', () => {
    for (const host of ['example.com', '8.8.4.5', '2606:4700::1']) {
      for (const port of [80, 443, 8080])
        expect(decideRequest(nat, get(host, port))).toMatchObject({ allowed: true, rule: 'network nat' })
    }
    expect(decideRequest(nat, get('example.com', 8443)).allowed).toBe(false)
    expect(decideRequest(nat, get('10.0.0.1')).allowed).toBe(false)
  })

  it.each([
    'dns.google',
    'cloudflare-dns.com',
    'mozilla.cloudflare-dns.com',
    'abc123.dns.nextdns.io',
    '1.1.1.1',
    '2606:4700:4700::1111',
  ])('refuses the DNS-over-HTTPS resolver %s unless a rule names it', host => {
    expect(decideRequest(nat, get(host)).reason).toBe(
      `${host} is a DNS-over-HTTPS resolver, which network nat allows only with a rule`,
    )
    expect(decideName(nat, host).answer).toBe('refused')
    const rule = { domains: [host.includes(':') ? `[${host}]` : host] }
    expect(decideRequest(policyOf(rule, { network: 'nat' }), get(host)).allowed).toBe(true)
    expect(decideRequest(policyOf({}, { network: 'nat', mode: 'ask' }), get(host)).outcome).toBe('ask')
  })

  it('allows names that only look like a resolver', () => {
    for (const host of ['google.com', 'xcloudflare-dns.com', 'dns.google.example.com'])
      expect(decideRequest(nat, get(host)).allowed).toBe(true)
  })
})
