// The verbs of policies: put, list, show, remove, check. Whoever calls them sends a changed policy to the sessions that use it.
import {
  LIMITS,
  Policy,
  type PolicyQuery,
  type RouteBody,
  type RouteReply,
  SandglassError,
  type StoredPolicy,
} from '@sandglass/contract'
import { checkUrl, compilePolicy } from '@sandglass/egress/policy'
import { cutPage, nameCursor, nameOf } from '../store/cursor.ts'
import type { Store } from '../store/open.ts'
import * as rows from '../store/policies.ts'
import { findNamed, readyPolicies, readyPolicy, resolvePolicies, shownPolicy } from './named.ts'

/** The part of the daemon's context that these functions need. */
export type PolicyContext = { readonly store: Store; readonly now: () => number }

export async function putPolicy({ store, now }: PolicyContext, name: string, policy: Policy): Promise<StoredPolicy> {
  refuseReady(name)
  const text = JSON.stringify(policy)
  if (Buffer.byteLength(text) > LIMITS.policy_bytes.max)
    throw new SandglassError('INVALID_REQUEST', { issue: `the policy has more than ${LIMITS.policy_bytes.max} bytes as JSON` })
  await refuseCycle(store, name, policy)
  return shownPolicy(await rows.putPolicy(store, name, text, now()))
}

export async function listPolicies({ store }: PolicyContext, query: PolicyQuery): Promise<RouteReply<'listPolicies'>> {
  const page = { limit: query.limit ?? LIMITS.list_page.default, offset: query.offset ?? 0 }
  const stored = (await rows.allPolicies(store)).filter(({ name }) => readyPolicy(name) === undefined).map(shownPolicy)
  const all = [...readyPolicies(), ...stored].sort((a, b) => (a.name < b.name ? -1 : 1))
  const after = query.cursor === undefined ? '' : nameOf(query.cursor)
  const found = all.filter(({ name }) => name > after).slice(page.offset)
  const { rows: items, nextCursor } = cutPage(found, page.limit, nameCursor)
  return { items, total: all.length, ...page, next_cursor: nextCursor }
}

export async function getPolicy({ store }: PolicyContext, name: string): Promise<StoredPolicy> {
  const policy = (await findNamed(store, [name])).get(name)
  if (policy === undefined) throw new SandglassError('POLICY_NOT_FOUND', { name })
  return policy
}

export async function removePolicy({ store }: PolicyContext, name: string): Promise<{ ok: true }> {
  refuseReady(name)
  const sessions = (await rows.sessionPolicies(store)).filter(({ policies }) => policies.includes(name)).map(row => row.session)
  const policies = (await rows.allPolicies(store)).map(shownPolicy).filter(({ policy }) => policy.include.includes(name))
  const by = [
    ...named('session', sessions),
    ...named(
      'policy',
      policies.map(policy => policy.name),
    ),
  ]
  if (by.length > 0) throw new SandglassError('POLICY_IN_USE', { name, by: by.join(' and ') })
  if (!(await rows.deletePolicy(store, name))) throw new SandglassError('POLICY_NOT_FOUND', { name })
  return { ok: true }
}

export async function checkPolicy(
  { store }: PolicyContext,
  name: string,
  { url, method }: RouteBody<'checkPolicy'>,
): Promise<RouteReply<'checkPolicy'>> {
  const policies = await resolvePolicies(store, [name])
  return checkUrl(compilePolicy({ network: 'allowlist', mode: null, policies }), url, method)
}

/** Adds a rule to a stored policy; a rule that it has already is not added again. */
export async function addRule(context: PolicyContext, name: string, list: 'domains' | 'tcp', rule: string): Promise<void> {
  refuseReady(name)
  const { policy } = await getPolicy(context, name)
  if (policy[list].includes(rule)) return
  const parsed = Policy.safeParse({ ...policy, [list]: [...policy[list], rule] })
  if (!parsed.success) throw new SandglassError('INVALID_REQUEST', { issue: `${rule} cannot be a rule of the policy ${name}` })
  await putPolicy(context, name, parsed.data)
}

function refuseReady(name: string): void {
  if (readyPolicy(name) !== undefined) throw new SandglassError('POLICY_BUILT_IN', { name })
}

/** Follows the includes of a policy that is about to be stored. Throws for a cycle, and for a name that does not exist. */
async function refuseCycle(store: Store, name: string, policy: Policy): Promise<void> {
  if (policy.include.includes(name)) throw cycle(name)
  const included = await resolvePolicies(store, policy.include)
  if (included.some(other => other.name === name)) throw cycle(name)
}

const cycle = (name: string) =>
  new SandglassError('INVALID_REQUEST', { issue: `include: the policy ${name} would include itself` })

function named(kind: string, names: readonly string[]): string[] {
  if (names.length === 0) return []
  const shown = names.slice(0, 5).join(', ')
  return [`the ${kind} ${shown}${names.length > 5 ? ` and ${names.length - 5} more` : ''}`]
}
