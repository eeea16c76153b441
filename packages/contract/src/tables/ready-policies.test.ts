import { describe, expect, it } from 'vitest'
import { Policy } from '../schemas/policies.ts'
import { POLICY_NAME } from './network.ts'
import { READY_POLICIES } from './ready-policies.ts'

const policies = Object.entries(READY_POLICIES)
const WRITING = /^(POST|PUT|PATCH|DELETE)$/

describe('ready-made policies', () => {
  it('are those that the documentation names', () => {
    expect(Object.keys(READY_POLICIES)).toEqual([
      'claude',
      'codex',
      'opencode',
      'pypi',
      'npm',
      'github',
      'debian',
      'crates',
      'go',
    ])
  })

  it.each(policies)('%s is a valid policy with rules and a description', (name, written) => {
    const policy = Policy.parse(written)
    expect(name).toMatch(POLICY_NAME)
    expect(policy.description).not.toBe('')
    expect(policy.domains.length + policy.url_prefixes.length).toBeGreaterThan(0)
  })

  it.each(policies)('%s enforces, opens no private address, no TCP port and no unopened TLS', (_, written) => {
    expect(Policy.parse(written)).toMatchObject({ include: [], tcp: [], ports: [], private: [], pass_through: [] })
    expect(Policy.parse(written).mode).toBeUndefined()
  })

  it.each(policies)('%s has no wildcard in a host and no rule twice', (_, written) => {
    const { domains, url_prefixes } = Policy.parse(written)
    for (const host of [...domains, ...url_prefixes.map(rule => rule.host)]) expect(host).toMatch(/^[a-z0-9.-]+$/)
    const rules = [...domains, ...url_prefixes.map(rule => JSON.stringify(rule))]
    expect(new Set(rules).size).toBe(rules.length)
  })

  it.each(['pypi', 'npm', 'debian', 'crates', 'go'] as const)('%s cannot publish', name => {
    const { domains, url_prefixes } = Policy.parse(READY_POLICIES[name])
    expect(domains).toEqual([])
    const writing = url_prefixes.filter(({ methods }) => methods.length === 0 || methods.some(method => WRITING.test(method)))
    // The audit of npm sends the list of dependencies.
    expect(writing.map(({ path }) => path)).toEqual(name === 'npm' ? ['/-/npm/v1/security/*'] : [])
  })

  it('do not contain storage that anybody can write to', () => {
    const hosts = policies.flatMap(([, written]) => Policy.parse(written).url_prefixes.map(rule => rule.host))
    expect(hosts.filter(host => /amazonaws|storage\.googleapis|blob\.core/.test(host))).toEqual([])
  })
})
