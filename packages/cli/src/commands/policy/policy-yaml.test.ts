import { expect, test } from 'vitest'
import { parsePolicy } from './policy-file.ts'
import { policyYaml } from './policy-yaml.ts'

test('what is empty is left out, and what is left means the same', () => {
  const policy = {
    mode: 'ask' as const,
    include: [],
    domains: ['*.example.com', 'example.com:8443'],
    urlPrefixes: [
      { host: 'a.example.com', path: '', methods: [] },
      { host: 'b.example.com', path: '/x', methods: ['GET'], graphql: { queries: true, mutations: false, subscriptions: false } },
    ],
    tcp: ['db.example.com:5432'],
    ports: [],
    private: [],
    passThrough: [],
  }
  const text = policyYaml(policy)
  expect(text).not.toMatch(/include|ports|private|pass_through|mutations|""|\[\]/)
  expect(parsePolicy(text, 'x').policy).toEqual({
    mode: 'ask',
    domains: policy.domains,
    urlPrefixes: [{ host: 'a.example.com' }, { host: 'b.example.com', path: '/x', methods: ['GET'], graphql: { queries: true } }],
    tcp: policy.tcp,
  })
})

test('a rule that allows no GraphQL operation keeps saying so', () => {
  const rule = { host: 'a.example.com', graphql: { queries: false, mutations: false, subscriptions: false } }
  expect(parsePolicy(policyYaml({ urlPrefixes: [rule] }), 'x').policy.urlPrefixes).toEqual([
    { host: 'a.example.com', graphql: {} },
  ])
})

test('a policy without rules is printed as one', () => {
  expect(policyYaml({ domains: [], include: [] })).toBe('{}\n')
})

test('characters that act on a terminal are escaped and read back as they were', () => {
  const description = 'a\u001b]0;x\u0007/\u202egnp.\u200b/é/\u0085*'
  const text = policyYaml({ description })
  // biome-ignore lint/suspicious/noControlCharactersInRegex: control characters are what it looks for
  expect(text).not.toMatch(/[\u0000-\u0009\u000b-\u001f\u007f-\u009f\u200b\u202e]/)
  expect(text).toContain('é')
  expect(parsePolicy(text, 'x').policy).toEqual({ description })
})
