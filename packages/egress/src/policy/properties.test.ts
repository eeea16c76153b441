import { Policy } from '@sandglass/contract'
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { MODES, policiesOf, policyOf, type Written } from './policy.fixture.ts'
import { decideConnection, decideName, decideRequest } from './policy.ts'

const label = fc.constantFrom('a', 'b', 'api', 'x-1')
const host = fc
  .tuple(fc.array(label, { maxLength: 2 }), fc.constantFrom('a.com', 'b.com', 'a.org'))
  .map(([labels, end]) => [...labels, end].join('.'))
const wild = fc
  .tuple(fc.constantFrom('*', '?', 'a*', '*.api', '*b?'), fc.constantFrom('a.com', 'b.com', 'a.org'))
  .map(parts => parts.join('.'))
const path = fc.constantFrom('/', '/a', '/a/b', '/a/b/c', '/b')
const pathPattern = fc.constantFrom('', '/', '/a', '/a/*', '/*', '/?', '/a/?/c')
const methods = fc.subarray(['GET', 'POST', 'PUT'])
const port = fc.constantFrom(80, 443, 8080, 22)
const pattern = fc.oneof(host, wild)

const written: fc.Arbitrary<Written> = fc.record({
  domains: fc.array(
    fc.oneof(
      pattern,
      fc.tuple(pattern, port).map(parts => parts.join(':')),
    ),
    { maxLength: 4 },
  ),
  url_prefixes: fc.array(fc.record({ host: pattern, path: pathPattern, methods }), { maxLength: 4 }),
  tcp: fc.array(
    fc.tuple(host, port).map(parts => parts.join(':')),
    { maxLength: 2 },
  ),
  ports: fc.subarray([8080, 9000]),
  private: fc.array(host, { maxLength: 1 }),
  pass_through: fc.array(pattern, { maxLength: 1 }),
})
const request = fc.record({ host, port, target: path, method: fc.constantFrom('GET', 'POST', 'PUT') })
const modes = fc.constantFrom(...MODES)
const networks = fc.constantFrom('allowlist' as const, 'nat' as const)

describe('every policy', () => {
  it('decides as a second implementation with regular expressions does', () => {
    fc.assert(
      fc.property(fc.array(written, { maxLength: 3 }), request, (policies, asked) => {
        expect(decideRequest(policiesOf(policies), asked).allowed).toBe(policies.some(policy => isAllowed(policy, asked)))
      }),
      { numRuns: 2000 },
    )
  })

  it('gives a name an address with exactly the ports of its rules', () => {
    fc.assert(
      fc.property(written, host, (policy, name) => {
        const answer = decideName(policyOf(policy), name)
        const anyPath = { ...policy, url_prefixes: policy.url_prefixes?.map(rule => ({ host: rule.host })) }
        const expected = [22, 80, 443, 8080, 9000].filter(candidate =>
          isAllowed(anyPath, { host: name, port: candidate, target: '/', method: 'GET' }),
        )
        expect(answer).toEqual(expected.length === 0 ? { answer: 'refused' } : { answer: 'address', ports: expected })
      }),
      { numRuns: 1000 },
    )
  })

  it('loses nothing when a policy is added', () => {
    fc.assert(
      fc.property(
        fc.array(written, { maxLength: 2 }),
        written,
        request,
        modes,
        networks,
        (policies, added, asked, mode, network) => {
          const before = decideRequest(policiesOf(policies, { mode, network }), asked)
          const after = decideRequest(policiesOf([...policies, added], { mode, network }), asked)
          if (before.allowed) expect(after.allowed).toBe(true)
          const connection = decideConnection(policiesOf(policies, { mode, network }), asked)
          if (connection.kind !== 'refused') {
            expect(decideConnection(policiesOf([...policies, added], { mode, network }), asked).kind).not.toBe('refused')
          }
        },
      ),
      { numRuns: 1000 },
    )
  })

  it('asks about or observes exactly what enforce refuses', () => {
    fc.assert(
      fc.property(written, request, (policy, asked) => {
        const [enforce, ask, observe] = MODES.map(mode => decideRequest(policyOf(policy, { mode }), asked).outcome)
        expect(enforce === 'allowed' ? ['allowed', 'allowed'] : ['ask', 'observed']).toEqual([ask, observe])
      }),
    )
  })

  it('allows nothing without rules: an empty, missing or null list is no permission', () => {
    const lists = ['domains', 'url_prefixes', 'tcp', 'ports', 'private', 'pass_through', 'include'] as const
    const value = fc.constantFrom(undefined, null, [])
    const empty = fc.record(Object.fromEntries(lists.map(list => [list, value])))
    fc.assert(
      fc.property(empty, request, (policy, asked) => {
        const parsed = Policy.safeParse(policy)
        expect(parsed.success).toBe(!Object.values(policy).includes(null))
        if (!parsed.success) return
        const compiled = policyOf(parsed.data)
        expect(decideRequest(compiled, asked).allowed).toBe(false)
        expect(decideName(compiled, asked.host)).toEqual({ answer: 'refused' })
        expect(['http', 'refused']).toContain(decideConnection(compiled, asked).kind)
      }),
    )
    expect(decideRequest(policiesOf([]), { host: 'a.com', port: 443, method: 'GET', target: '/' }).allowed).toBe(false)
  })

  it('allows nothing by ports, private or pass_through alone', () => {
    fc.assert(
      fc.property(written, request, ({ ports, private: hosts, pass_through }, asked) => {
        expect(decideRequest(policyOf({ ports, private: hosts, pass_through }), asked).allowed).toBe(false)
        expect(decideName(policyOf({ ports, private: hosts, pass_through }), asked.host).answer).toBe('refused')
      }),
    )
  })
})

type Asked = { host: string; port: number; target: string; method: string }

/** Straight from the meaning of a policy, rule by rule. */
function isAllowed({ domains = [], url_prefixes = [], tcp = [], ports = [] }: Written, asked: Asked): boolean {
  const web = [80, 443, ...ports]
  const matches = (glob: string, text: string) =>
    new RegExp(
      `^${glob
        .replace(/[.+^$()[\]{}|\\/-]/g, '\\$&')
        .replaceAll('*', '.*')
        .replaceAll('?', '.')}$`,
      's',
    ).test(text)
  return (
    domains.some(rule => {
      const [name = '', given] = rule.split(':')
      return matches(name, asked.host) && (given === undefined ? web.includes(asked.port) : Number(given) === asked.port)
    }) ||
    url_prefixes.some(
      rule =>
        matches(rule.host, asked.host) &&
        web.includes(asked.port) &&
        (!rule.path || matches(rule.path, asked.target)) &&
        (!rule.methods?.length || rule.methods.includes(asked.method)),
    ) ||
    tcp.includes(`${asked.host}:${asked.port}`)
  )
}
