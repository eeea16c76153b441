// What happens to a host that no rule allows: network nat, answers of a person, and the mode of the policy.
import { isAddressAllowed } from './addresses/address-check.ts'
import { type CompiledPolicy, deniedKey } from './compile.ts'
import { isDohResolver } from './doh-resolvers.ts'
import { bracketed, isAddress, normaliseHost } from './host.ts'

export type Outcome = 'allowed' | 'blocked' | 'ask' | 'observed'

export interface Decision {
  readonly allowed: boolean
  readonly outcome: Outcome
  /** Text of the rule that allows it. */
  readonly rule: string | null
  /** For people. */
  readonly reason: string
  /** The operations in the body decide: read it and ask again with `graphql`. */
  readonly needsGraphql?: boolean
}

export const allow = (rule: string): Decision => ({ allowed: true, outcome: 'allowed', rule, reason: `allowed by ${rule}` })
export const block = (reason: string): Decision => ({ allowed: false, outcome: 'blocked', rule: null, reason })

/** Why no rule, mode or answer can open this host; null if one can. */
export function hostRefusal(policy: CompiledPolicy, host: string): string | null {
  // SECURITY: a host in any other form could match a wildcard here and mean something else to a resolver.
  if (normaliseHost(host) !== host) return 'the host is not a valid host name or IP address'
  if (!isAddress(host)) return null
  const { allowed, reason } = isAddressAllowed(policy, host, host)
  return allowed ? null : reason
}

/** The decision about (host, port) after no rule has allowed it; `reason` says why none has. */
export function decideOutside(
  policy: CompiledPolicy,
  kind: 'http' | 'tcp',
  host: string,
  port: number,
  reason: string,
): Decision {
  if (policy.denied.has(deniedKey({ kind, host, port }))) {
    return block(`a person has refused ${bracketed(host)}:${port} for this session`)
  }
  if (policy.network === 'allowlist') return decideByMode(policy, reason)
  const refusal = natRefusal(policy, host, port)
  return refusal === null ? allow('network nat') : decideByMode(policy, refusal)
}

/** True if every public name gets an address, this one included. */
export function isOpenName(policy: CompiledPolicy, name: string): boolean {
  if (policy.network === 'nat' && natRefusal(policy, name, 443) === null) return true
  return policy.mode === 'observe' && isPublicHost(policy, name)
}

/** Why network nat alone does not open (host, port); null if it does. */
function natRefusal(policy: CompiledPolicy, host: string, port: number): string | null {
  if (!policy.webPorts.has(port))
    return `network nat allows the ports ${[...policy.webPorts].join(', ')}; port ${port} needs a rule`
  if (isDohResolver(host)) return `${host} is a DNS-over-HTTPS resolver, which network nat allows only with a rule`
  return isPublicHost(policy, host) ? null : `${host} is not a public name, and no policy lists it under private`
}

/** False for names that public DNS does not have. An address is checked where it is used. */
function isPublicHost(policy: CompiledPolicy, host: string): boolean {
  if (isAddress(host) || policy.privateHosts.has(host)) return true
  return host.includes('.') && !/(^|\.)(localhost|local|internal|onion|home\.arpa)$/.test(host)
}

function decideByMode({ mode }: CompiledPolicy, reason: string): Decision {
  switch (mode) {
    case 'enforce':
      return block(reason)
    case 'ask':
      return { allowed: false, outcome: 'ask', rule: null, reason }
    case 'observe':
      return { allowed: true, outcome: 'observed', rule: null, reason: `${reason}; mode observe lets it pass` }
  }
}
