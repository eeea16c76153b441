// The metrics of the egress process. It counts by itself, also while no daemon runs; a scrape asks it.
import { Counter, Gauge, type Registry } from 'prom-client'
import type { EgressSupervisor } from './supervisor.ts'

/** Hosts with the most requests that are shown by name: a sandbox chooses the names. */
const MAX_HOSTS = 200
const OTHERS = 'other'

export function addEgressMetrics(registry: Registry, supervisor: () => EgressSupervisor): void {
  const registers = [registry]
  const requests = new Counter({
    name: 'sandglass_egress_requests_total',
    help: 'Requests of sandboxes, by host and decision; they start again with the egress process',
    labelNames: ['host', 'decision'],
    registers,
  })
  const bytes = new Counter({
    name: 'sandglass_egress_bytes_total',
    help: 'Bytes between sandboxes and the network, by host and direction',
    labelNames: ['host', 'direction'],
    registers,
  })
  const connections = new Gauge({
    name: 'sandglass_egress_connections',
    help: 'Open connections of sandboxes to the network',
    registers,
    async collect() {
      const counted = await supervisor().metrics()
      for (const metric of [requests, bytes]) metric.reset()
      connections.set(counted?.connections ?? 0)
      const hosts = (counted?.hosts ?? []).toSorted((a, b) => b.allowed + b.blocked - a.allowed - a.blocked)
      for (const [index, { host: name, allowed, blocked, failed, bytesSent, bytesReceived }] of hosts.entries()) {
        const host = index < MAX_HOSTS ? name : OTHERS
        requests.inc({ host, decision: 'allowed' }, Math.max(0, allowed))
        requests.inc({ host, decision: 'blocked' }, Math.max(0, blocked))
        requests.inc({ host, decision: 'error' }, Math.max(0, failed))
        bytes.inc({ host, direction: 'sent' }, Math.max(0, bytesSent))
        bytes.inc({ host, direction: 'received' }, Math.max(0, bytesReceived))
      }
    },
  })
}
