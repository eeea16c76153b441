import { NetworkEntry, Policy } from '@sandglass/contract'
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { policyOf } from './policy.fixture.ts'
import { decideConnection, decideRequest, suggestPolicy } from './policy.ts'

const BASE = {
  id: 1,
  at: '2025-01-01T00:00:00.000Z',
  type: 'request',
  decision: 'allowed',
  method: 'GET',
  url: null,
  host: null,
  port: 443,
  status: 200,
  rule: null,
  reason: null,
  bytes_sent: 0,
  bytes_received: 0,
  duration_ms: 1,
  masked: 0,
  tags: [],
} as const satisfies NetworkEntry

function request(url: string, method = 'GET', others: Partial<NetworkEntry> = {}): NetworkEntry {
  const { hostname, port, protocol } = new URL(url)
  const given = port === '' ? (protocol === 'http:' ? 80 : 443) : Number(port)
  return NetworkEntry.parse({ ...BASE, url, method, host: hostname, port: given, ...others })
}
const connection = (host: string, port: number, rule: string | null = null) =>
  NetworkEntry.parse({ ...BASE, type: 'connection', method: null, host, port, rule })

const EMPTY = { include: [], domains: [], url_prefixes: [], tcp: [], ports: [], private: [], pass_through: [] }

describe('a suggested policy', () => {
  it('is empty without requests', () => {
    expect(suggestPolicy([])).toEqual(EMPTY)
  })

  it('groups paths by their first segment, with the methods that were used', () => {
    const entries = [
      request('https://b.com/x/1', 'POST'),
      request('https://a.com/'),
      request('https://b.com/x/2?q=1'),
      request('http://b.com/x/2'),
      request('https://b.com/y'),
    ]
    expect(suggestPolicy(entries)).toEqual({
      ...EMPTY,
      url_prefixes: [
        { host: 'a.com', path: '/', methods: ['GET'] },
        { host: 'b.com', path: '/x/*', methods: ['GET', 'POST'] },
        { host: 'b.com', path: '/y', methods: ['GET'] },
      ],
    })
  })

  it('allows a whole host that was used in many places', () => {
    const entries = Array.from({ length: 9 }, (_, i) => request(`https://a.com/${i}`))
    expect(suggestPolicy(entries)).toEqual({ ...EMPTY, domains: ['a.com'] })
    expect(suggestPolicy(entries.slice(1)).url_prefixes).toHaveLength(8)
  })

  it('has tcp rules for connections, and pass_through where TLS was not opened', () => {
    const entries = [
      connection('db.example.com', 5432),
      connection('2001:db8::1', 22),
      connection('pinned.com', 443, 'test: pass_through pinned.com'),
      request('https://a.com:8443/x'),
    ]
    expect(suggestPolicy(entries)).toEqual({
      ...EMPTY,
      domains: ['a.com:8443', 'pinned.com'],
      tcp: ['[2001:db8::1]:22', 'db.example.com:5432'],
      pass_through: ['pinned.com'],
    })
  })

  it('leaves out what was refused, failed or is no request', () => {
    const url = 'https://a.com/x'
    const entries = [
      request(url, 'GET', { decision: 'blocked' }),
      request(url, 'GET', { decision: 'error' }),
      request(url, 'GET', { type: 'dns' }),
      request(url, 'GET', { host: 'evil\0.com' }),
      request(url, 'GET', { port: null }),
    ]
    expect(suggestPolicy(entries)).toEqual(EMPTY)
  })

  it('names the decoded path, and all paths or methods where a rule cannot name them', () => {
    expect(suggestPolicy([request('https://a.com/a%20b')]).url_prefixes).toEqual([
      { host: 'a.com', path: '/a b', methods: ['GET'] },
    ])
    expect(suggestPolicy([request('https://a.com/a%2525')]).domains).toEqual(['a.com'])
    expect(suggestPolicy([request('https://a.com/x', 'get')]).url_prefixes).toEqual([{ host: 'a.com', path: '/x', methods: [] }])
  })

  it('says so when there are more rules than a policy can have', () => {
    const policy = suggestPolicy(Array.from({ length: 100 }, (_, i) => connection('a.com', i + 1)))
    expect(policy.tcp).toHaveLength(64)
    expect(policy.description).toContain('incomplete')
  })

  const segment = fc.constantFrom('a', 'b', 'c%20d', 'ü', '%41', '100%25', 'x*', '')
  const entry = fc.oneof(
    fc
      .tuple(
        fc.constantFrom('https://a.com', 'http://b.a.com', 'https://a.com:8443', 'https://10.0.0.1', 'https://[2001:db8::1]'),
        fc.array(segment, { maxLength: 3 }),
        fc.constantFrom('GET', 'POST', 'M-SEARCH', 'purge'),
      )
      .map(([origin, segments, method]) =>
        request(`${origin}/${segments.join('/')}`, method, { host: new URL(origin).hostname }),
      ),
    fc.tuple(fc.constantFrom('a.com', 'db.com'), fc.constantFrom(22, 5432)).map(([host, port]) => connection(host, port)),
  )

  it('is valid, does not depend on the order of the entries, and allows them all', () => {
    fc.assert(
      fc.property(fc.array(entry, { maxLength: 20 }), entries => {
        const policy = suggestPolicy(entries)
        expect(Policy.parse(policy)).toEqual(policy)
        expect(suggestPolicy(entries.toReversed())).toEqual(policy)
        const compiled = policyOf({ ...policy, private: ['10.0.0.1'] })
        for (const { type, host, port, method, url } of entries) {
          const at = { host: (host ?? '').replace(/[[\]]/g, ''), port: port ?? 0 }
          if (type === 'connection') expect(decideConnection(compiled, at).kind).toBe('tcp')
          else
            expect(decideRequest(compiled, { ...at, method: method ?? '', target: new URL(url ?? '').pathname }).reason).toMatch(
              /^allowed by/,
            )
        }
      }),
      { numRuns: 300 },
    )
  })
})
