// Where a request goes: the addresses of a host that the policy permits, a configured address, or the upstream proxy.
import { splitPort } from '@sandglass/contract'
import type { EgressSettings } from '../control/messages.ts'
import { type DialTarget, parseProxy } from '../http/upstream/dial.ts'
import { isAddressAllowed } from '../policy/policy.ts'
import type { LiveSession } from '../sessions/session.ts'
import type { ExchangeContext } from './context.ts'

export type RouteResult = DialTarget | { readonly refused: string; readonly isFailure: boolean }

/**
 * SECURITY: the addresses that were checked are the ones that are dialled, so a name whose answer changes between the check and the connection
 * gains nothing.
 */
export async function findRoute(
  context: ExchangeContext,
  session: LiveSession,
  host: string,
  port: number,
): Promise<RouteResult> {
  const settings = context.settings()
  const configured = overrideOf(settings, host, port)
  if (configured !== null) return configured
  if (settings.upstreamProxy !== null)
    return { host, port, addresses: [], dialPort: port, proxy: parseProxy(settings.upstreamProxy) }
  const found = await context.resolver.resolve(session.id, host)
  if (found.kind !== 'found') {
    const why = found.kind === 'not-found' ? 'there is no such name' : `the name could not be resolved (${found.reason})`
    return { refused: why, isFailure: true }
  }
  const checked = found.addresses.map(address => ({ address, ...isAddressAllowed(session.policy, host, address.address) }))
  const addresses = checked.filter(({ allowed }) => allowed).map(({ address }) => address)
  if (addresses.length > 0) return { host, port, addresses, dialPort: port, proxy: null }
  return { refused: checked[0]?.reason ?? 'the name has no address', isFailure: false }
}

/** The operator's own address for a host: it is trusted, private or not. */
function overrideOf({ overrides }: EgressSettings, host: string, port: number): DialTarget | null {
  const to = overrides[`${host}:${port}`] ?? overrides[host]
  if (to === undefined) return null
  const [address, toPort] = splitPort(to)
  const plain = address.replace(/^\[|\]$/g, '')
  const family = plain.includes(':') ? 6 : 4
  return { host, port, addresses: [{ address: plain, family }], dialPort: Number(toPort ?? port), proxy: null }
}
