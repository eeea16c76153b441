import { LIMITS, Policy, READY_POLICIES } from '@sandglass/contract'
import { expect, it } from 'vitest'
import { sessionRow, storeFixture } from '../store/engines.fixture.ts'
import { putPolicy as putRow } from '../store/policies.ts'
import { insertSession } from '../store/sessions.ts'
import { resolvePolicies } from './named.ts'
import { addRule, checkPolicy, getPolicy, listPolicies, type PolicyContext, putPolicy, removePolicy } from './stored.ts'

const policy = (fields: object = {}): Policy => Policy.parse(fields)

async function contextFixture(): Promise<PolicyContext> {
  const store = await storeFixture('sqlite')
  return { store, now: () => 1000 }
}

it('a policy that was stored is shown, listed beside the ready-made ones, and removed', async () => {
  const context = await contextFixture()
  const stored = await putPolicy(context, 'mine', policy({ domains: ['Example.com'] }))
  expect(stored).toMatchObject({ name: 'mine', built_in: false, created_at: '1970-01-01T00:00:01.000Z' })
  expect(stored.policy.domains).toEqual(['example.com'])
  expect(await getPolicy(context, 'mine')).toEqual(stored)
  const { items, total } = await listPolicies(context, { limit: 200 })
  expect(items.map(({ name }) => name)).toEqual([...Object.keys(READY_POLICIES), 'mine'].sort())
  expect(total).toBe(items.length)
  expect(items.filter(item => item.built_in).length).toBe(Object.keys(READY_POLICIES).length)
  await removePolicy(context, 'mine')
  await expect(getPolicy(context, 'mine')).rejects.toMatchObject({ code: 'POLICY_NOT_FOUND' })
  await expect(removePolicy(context, 'mine')).rejects.toMatchObject({ code: 'POLICY_NOT_FOUND' })
})

it('the list has pages', async () => {
  const context = await contextFixture()
  const seen: string[] = []
  let cursor: string | undefined
  do {
    const page = await listPolicies(context, { limit: 2, cursor })
    seen.push(...page.items.map(({ name }) => name))
    cursor = page.next_cursor ?? undefined
  } while (cursor)
  expect(seen).toEqual(Object.keys(READY_POLICIES).sort())
})

it('a ready-made policy cannot be changed, removed or hidden by a row', async () => {
  const context = await contextFixture()
  for (const change of [
    putPolicy(context, 'npm', policy()),
    removePolicy(context, 'npm'),
    addRule(context, 'npm', 'domains', 'a.b'),
  ])
    await expect(change).rejects.toMatchObject({ code: 'POLICY_BUILT_IN' })
  await putRow(context.store, 'npm', JSON.stringify(policy({ domains: ['evil.example'] })), 1)
  expect(await getPolicy(context, 'npm')).toMatchObject({ built_in: true })
  expect(JSON.stringify(await resolvePolicies(context.store, ['npm']))).not.toContain('evil')
  expect((await listPolicies(context, {})).total).toBe(Object.keys(READY_POLICIES).length)
})

it('includes are resolved through all levels, once each, and without the modes of the included ones', async () => {
  const context = await contextFixture()
  await putPolicy(context, 'base', policy({ domains: ['a.example'], mode: 'observe' }))
  await putPolicy(context, 'middle', policy({ include: ['base', 'npm'] }))
  await putPolicy(context, 'top', policy({ include: ['middle', 'base'], mode: 'ask' }))
  const resolved = await resolvePolicies(context.store, ['top', 'top'])
  expect(resolved.map(({ name }) => name)).toEqual(['top', 'middle', 'base', 'npm'])
  expect(resolved.map(entry => entry.policy.mode)).toEqual(['ask', undefined, undefined, undefined])
})

it('a policy that would include itself, or one that does not exist, is refused', async () => {
  const context = await contextFixture()
  await putPolicy(context, 'a', policy())
  await putPolicy(context, 'b', policy({ include: ['a'] }))
  await putPolicy(context, 'c', policy({ include: ['b'] }))
  for (const include of ['a', 'b', 'c'])
    await expect(putPolicy(context, 'a', policy({ include: [include] }))).rejects.toMatchObject({ code: 'INVALID_REQUEST' })
  await expect(putPolicy(context, 'd', policy({ include: ['nothing'] }))).rejects.toMatchObject({ detail: { name: 'nothing' } })
  expect((await getPolicy(context, 'a')).policy.include).toEqual([])
})

it('a policy that is too large, or includes too much, is refused', async () => {
  const context = await contextFixture()
  const long = Array.from({ length: 900 }, (_, i) => ({ host: `h${i}.example.com`, path: `/${'x'.repeat(200)}` }))
  await expect(putPolicy(context, 'large', policy({ url_prefixes: long }))).rejects.toMatchObject({ code: 'INVALID_REQUEST' })
  const names = Array.from({ length: LIMITS.resolved_policies.max + 1 }, (_, i) => `p${i}`)
  for (const name of names) await putPolicy(context, name, policy())
  await expect(resolvePolicies(context.store, names)).rejects.toMatchObject({ code: 'INVALID_REQUEST' })
})

it('a policy that a session or another policy uses cannot be removed', async () => {
  const context = await contextFixture()
  await putPolicy(context, 'used', policy())
  await putPolicy(context, 'other', policy({ include: ['used'] }))
  await insertSession(context.store, sessionRow({ name: 'box', policies: '["used"]' }), null)
  await insertSession(context.store, sessionRow({ name: 'old', policies: '["other"]', status: 'terminated', is_final: 1 }), null)
  await expect(removePolicy(context, 'used')).rejects.toMatchObject({
    code: 'POLICY_IN_USE',
    message: 'the policy used is used by the session box and the policy other',
  })
  await removePolicy(context, 'other')
})

it('a check names the rule that allows a URL, of an included policy too', async () => {
  const context = await contextFixture()
  await putPolicy(context, 'base', policy({ url_prefixes: [{ host: 'api.example.com', path: '/v1/*', methods: ['GET'] }] }))
  await putPolicy(context, 'top', policy({ include: ['base'] }))
  const check = (url: string, method = 'GET') => checkPolicy(context, 'top', { url, method })
  expect(await check('https://api.example.com/v1/x')).toMatchObject({ allowed: true, rule: expect.stringContaining('base') })
  expect(await check('https://api.example.com/v2')).toMatchObject({ allowed: false, rule: null })
  expect(await check('https://api.example.com/v1/x', 'POST')).toMatchObject({ allowed: false })
  await expect(checkPolicy(context, 'none', { url: 'https://a.example', method: 'GET' })).rejects.toMatchObject({
    code: 'POLICY_NOT_FOUND',
  })
})

it('a rule is added once, and only if it is a valid one', async () => {
  const context = await contextFixture()
  await putPolicy(context, 'mine', policy({ domains: ['a.example'] }))
  for (const rule of ['a.example', 'b.example', 'b.example']) await addRule(context, 'mine', 'domains', rule)
  await addRule(context, 'mine', 'tcp', 'db.example:5432')
  expect((await getPolicy(context, 'mine')).policy).toMatchObject({
    domains: ['a.example', 'b.example'],
    tcp: ['db.example:5432'],
  })
  await expect(addRule(context, 'mine', 'domains', '*.com')).rejects.toMatchObject({ code: 'INVALID_REQUEST' })
})
