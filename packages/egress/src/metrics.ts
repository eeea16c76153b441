// Counters per host, for the daemon's metrics. The number of hosts is bounded: what does not fit is counted under one name.
import type { z } from 'zod'
import type { HostMetrics } from './control/messages.ts'

const MAX_HOSTS = 1000
const OTHERS = 'other'
/** Names that a sandbox invents must not take the places of real hosts. */
const REFUSED = 'refused'

type Counters = z.infer<typeof HostMetrics>

export interface Metrics {
  count(host: string, decision: 'allowed' | 'blocked' | 'error', bytesSent: number, bytesReceived: number): void
  hosts(): Counters[]
}

export function createMetrics(): Metrics {
  const byHost = new Map<string, Counters>()
  return {
    count(host, decision, bytesSent, bytesReceived) {
      const wanted = decision === 'blocked' ? REFUSED : host
      const name = byHost.has(wanted) || byHost.size < MAX_HOSTS ? wanted : OTHERS
      const counters = byHost.get(name) ?? { host: name, allowed: 0, blocked: 0, failed: 0, bytesSent: 0, bytesReceived: 0 }
      byHost.set(name, counters)
      if (decision === 'allowed') counters.allowed += 1
      else if (decision === 'blocked') counters.blocked += 1
      else counters.failed += 1
      counters.bytesSent += bytesSent
      counters.bytesReceived += bytesReceived
    },
    hosts: () => [...byHost.values()],
  }
}
