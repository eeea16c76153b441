import { expect, test } from 'vitest'
import { beyondPolicies, type Check } from './beyond-policies.ts'

/** Policies as patterns of `METHOD URL`. */
const POLICIES: Readonly<Record<string, RegExp>> = {
  whole: /^\S+ (https?|tcp):\/\/whole\.example(:5432$|\/)/,
  reading: /^GET https?:\/\/part\.example\/docs\//,
}
const check: Check = async (policy, url, method) => {
  const allowed = POLICIES[policy]?.test(`${method} ${url}`) === true
  return policy === 'observing' ? { allowed: true, rule: null } : { allowed, rule: allowed ? `${policy}: domains x` : null }
}

const SUGGESTED = {
  domains: ['part.example', 'whole.example'],
  urlPrefixes: [
    { host: 'part.example', path: '/docs/*', methods: ['GET'] },
    { host: 'part.example', path: '/docs/*', methods: ['GET', 'POST'] },
    { host: 'part.example', path: '', methods: ['GET'] },
    { host: 'whole.example', path: '/a b#c', methods: [] },
  ],
  tcp: ['whole.example:5432', 'whole.example:22'],
}

test('rules that other policies cover as a whole are left out', async () => {
  expect(await beyondPolicies(SUGGESTED, ['whole', 'reading'], check)).toEqual({
    include: ['whole', 'reading'],
    domains: ['part.example'],
    urlPrefixes: SUGGESTED.urlPrefixes.slice(1, 3),
    tcp: ['whole.example:22'],
    passThrough: [],
  })
})

test('what a policy lets through without a rule stays', async () => {
  expect(await beyondPolicies(SUGGESTED, ['observing'], check)).toMatchObject({ ...SUGGESTED, include: ['observing'] })
  expect(await beyondPolicies(SUGGESTED, [], check)).toEqual({ ...SUGGESTED, include: [] })
})
