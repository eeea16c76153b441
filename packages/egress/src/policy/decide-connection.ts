// Decisions before a request is there: whether a name gets an address, and how a connection is treated.
import { type CompiledPolicy, type HttpRule, isUnconditional } from './compile.ts'
import { bracketed, isAddress } from './host.ts'
import { decideOutside, hostRefusal, isOpenName } from './outside.ts'

export type NameDecision = { readonly answer: 'address'; readonly ports: number[] } | { readonly answer: 'refused' }

export type ConnectionDecision =
  /** Bytes are forwarded and never looked at: a server may speak first. */
  | { readonly kind: 'tcp'; readonly rule: string; readonly outcome: 'allowed' | 'observed' }
  /** TLS is forwarded unopened, after its server name has been checked against the host. */
  | { readonly kind: 'pass_through'; readonly rule: string; readonly outcome: 'allowed' | 'observed' }
  /** HTTP or TLS is expected; `decideRequest` decides about each request. */
  | { readonly kind: 'http' }
  /** A TCP connection that waits for a person, with nothing read from it. */
  | { readonly kind: 'ask'; readonly reason: string }
  | { readonly kind: 'refused'; readonly reason: string }

/**
 * The answer to a DNS question of the sandbox. `address` has the ports to listen on; the caller first finds out whether the name exists. `refused`
 * is the shared address, where requests are answered with the reason, or held.
 */
export function decideName(policy: CompiledPolicy, host: string): NameDecision {
  if (hostRefusal(policy, host) !== null || isAddress(host)) return { answer: 'refused' }
  const ruled = [...policy.http.find(host).flatMap(rule => [...rule.ports]), ...policy.tcp.find(host).map(rule => rule.port)]
  const general = isOpenName(policy, host) ? [...policy.webPorts] : []
  const ports = [...new Set([...ruled, ...general])].sort((a, b) => a - b)
  return ports.length === 0 ? { answer: 'refused' } : { answer: 'address', ports }
}

/** The host is normalised. A web port of an unlisted host is `http`, so that its requests get a reply with the reason. */
export function decideConnection(policy: CompiledPolicy, { host, port }: { host: string; port: number }): ConnectionDecision {
  const refusal = hostRefusal(policy, host)
  if (refusal !== null) return { kind: 'refused', reason: refusal }
  const tcp = policy.tcp.find(host).find(rule => rule.port === port)
  if (tcp !== undefined) return { kind: 'tcp', rule: tcp.text, outcome: 'allowed' }
  const rules = policy.http.find(host)
  const here = rules.filter(rule => rule.ports.has(port))
  const passThrough = port === 80 ? undefined : policy.passThrough.find(host)[0]
  if (passThrough !== undefined) {
    // SECURITY: nothing of a pass-through connection is seen, so a rule about paths or methods cannot allow it.
    const outcome = here.some(isUnconditional) ? 'allowed' : decideOutside(policy, 'http', host, port, '').outcome
    if (outcome === 'allowed' || outcome === 'observed') return { kind: 'pass_through', rule: passThrough, outcome }
  }
  if (here.length > 0 || policy.webPorts.has(port)) return { kind: 'http' }
  const decision = decideOutside(policy, 'tcp', host, port, otherPort(rules, host, port))
  if (decision.outcome === 'ask') return { kind: 'ask', reason: decision.reason }
  if (decision.outcome === 'blocked') return { kind: 'refused', reason: decision.reason }
  return { kind: 'tcp', rule: decision.rule ?? 'mode observe', outcome: decision.outcome }
}

function otherPort(rules: readonly HttpRule[], host: string, port: number): string {
  if (rules.length === 0) return `no rule allows ${bracketed(host)}:${port}`
  const ports = new Set(rules.flatMap(rule => [...rule.ports]))
  return `the host ${host} is allowed on port ${[...ports].join(', ')}, not on port ${port}`
}
