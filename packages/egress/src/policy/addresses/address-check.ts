// Whether the egress process may connect to an address that a host resolved to.

import type { CompiledPolicy } from '../compile.ts'
import { nonPublicRange } from './address-ranges.ts'
import { formatAddress, parseAddress } from './ip-address.ts'

/**
 * SECURITY: without this check a name under the sandbox's control, or a redirect to one, reaches services of the host and its network. Every
 * connection has to use an address that was checked here, not the result of a second lookup.
 */
export function isAddressAllowed(policy: CompiledPolicy, host: string, address: string): { allowed: boolean; reason: string } {
  const parsed = parseAddress(address)
  if (parsed === null) return { allowed: false, reason: `${host} resolves to something that is not an IP address` }
  const literal = formatAddress(parsed)
  if (policy.privateHosts.has(literal)) return { allowed: true, reason: `${literal} is listed under private` }
  const range = nonPublicRange(parsed)
  if (range === null) return { allowed: true, reason: `${literal} is a public address` }
  if (range.opensBy === 'name' && policy.privateHosts.has(host))
    return { allowed: true, reason: `${host} is listed under private` }
  const subject = host === literal ? literal : `${host} resolves to ${literal}, which`
  const remedy = range.opensBy === 'name' && host !== literal ? host : literal
  return { allowed: false, reason: `${subject} is ${range.about}; only a policy that lists ${remedy} under private allows it` }
}
