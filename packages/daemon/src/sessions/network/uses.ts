// Which live sessions use a policy or a secret.
import { resolvePolicies } from '../../policies/named.ts'
import type { SessionContext } from '../context.ts'
import type { LiveSession } from '../live.ts'

/** Sessions that have the policy, or one that includes it. */
export async function usesPolicy(context: SessionContext, name: string): Promise<(live: LiveSession) => boolean> {
  const names = new Set(context.live.all().flatMap(({ record }) => record.policies))
  const using = new Set<string>()
  for (const other of names) if (await includes(context, other, name)) using.add(other)
  return ({ record }) => record.policies.some(policy => using.has(policy))
}

export const usesSecret =
  (name: string) =>
  ({ record }: LiveSession): boolean =>
    record.secrets.some(secret => secret.name === name)

/** A policy that cannot be resolved counts as one that uses every other: its sessions are sent again. */
async function includes({ store }: SessionContext, policy: string, name: string): Promise<boolean> {
  const resolved = await resolvePolicies(store, [policy]).catch(() => null)
  return resolved === null || resolved.some(other => other.name === name)
}
