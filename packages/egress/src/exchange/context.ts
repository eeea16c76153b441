// What all exchanges share.
import type { EgressSettings } from '../control/messages.ts'
import type { HeldRequests } from '../held-requests.ts'
import type { Upstreams } from '../http/upstream.ts'
import type { Metrics } from '../metrics.ts'
import type { Resolver } from '../resolver.ts'
import type { LeafCache } from '../tls/leaf.ts'

export interface ExchangeContext {
  settings(): EgressSettings
  readonly resolver: Resolver
  readonly metrics: Metrics
  readonly held: HeldRequests
  readonly leaves: LeafCache
  readonly upstreams: Upstreams
  onError(error: unknown, what: string): void
}
