// Policies by name, stored or ready-made, and everything that they include.
import { LIMITS, Policy, READY_POLICIES, SandglassError, type StoredPolicy } from '@sandglass/contract'
import type { NamedPolicy } from '@sandglass/egress/session'
import type { Store } from '../store/open.ts'
import { findPolicies } from '../store/policies.ts'
import type { PolicyRow } from '../store/tables.ts'

/** A ready-made policy cannot be hidden: a stored one of the same name is not used. */
export const readyPolicy = (name: string): StoredPolicy | undefined =>
  Object.hasOwn(READY_POLICIES, name) ? READY.get(name) : undefined

const READY: ReadonlyMap<string, StoredPolicy> = new Map(
  Object.entries(READY_POLICIES).map(([name, policy]) => [
    name,
    { name, policy: Policy.parse(policy), built_in: true, created_at: null, updated_at: null },
  ]),
)

export const readyPolicies = (): StoredPolicy[] => [...READY.values()]

export function shownPolicy({ name, policy, created_at, updated_at }: PolicyRow): StoredPolicy {
  const iso = (ms: number) => new Date(ms).toISOString()
  return {
    name,
    policy: Policy.parse(JSON.parse(policy)),
    built_in: false,
    created_at: iso(created_at),
    updated_at: iso(updated_at),
  }
}

/** Those of the names that exist. */
export async function findNamed(store: Store, names: readonly string[]): Promise<Map<string, StoredPolicy>> {
  const rows = await findPolicies(
    store,
    names.filter(name => readyPolicy(name) === undefined),
  )
  const found = [...names.map(readyPolicy), ...rows.map(shownPolicy)].filter(policy => policy !== undefined)
  return new Map(found.map(policy => [policy.name, policy]))
}

/**
 * The policies with all that they include, each once, those of `names` first. An included policy adds its rules; its mode has no effect.
 * Throws POLICY_NOT_FOUND for a name that does not exist.
 */
export async function resolvePolicies(store: Store, names: readonly string[]): Promise<NamedPolicy[]> {
  const resolved = new Map<string, NamedPolicy>()
  let next = [...new Set(names)]
  for (let isIncluded = false; next.length > 0; isIncluded = true) {
    const found = await findNamed(store, next)
    for (const name of next) {
      const policy = found.get(name)?.policy
      if (policy === undefined) throw new SandglassError('POLICY_NOT_FOUND', { name })
      const { mode, ...rules } = policy
      resolved.set(name, { name, policy: isIncluded || mode === undefined ? rules : policy })
    }
    if (resolved.size > LIMITS.resolved_policies.max)
      throw new SandglassError('INVALID_REQUEST', {
        issue: `policies: with all that they include these are more than ${LIMITS.resolved_policies.max}`,
      })
    const included = next.flatMap(name => found.get(name)?.policy.include ?? [])
    next = [...new Set(included)].filter(name => !resolved.has(name))
  }
  return [...resolved.values()]
}
