// The metrics of GET /metrics. Each daemon has its own registry, so that tests can run several.
import { SESSION_STATES } from '@sandglass/contract'
import { Counter, Gauge, Histogram, Registry } from 'prom-client'
import type { Store } from '../store/open.ts'
import { countByState } from '../store/sessions.ts'

export type Metrics = ReturnType<typeof createMetrics>

export function createMetrics(store: Store) {
  const registry = new Registry()
  const registers = [registry]
  const sessions = new Gauge({
    name: 'sandglass_sessions',
    help: 'Sessions by state',
    labelNames: ['state'],
    registers,
    async collect() {
      const counts = await countByState(store)
      for (const state of SESSION_STATES) sessions.set({ state }, counts.get(state) ?? 0)
    },
  })
  return {
    registry,
    createSeconds: new Histogram({
      name: 'sandglass_session_create_seconds',
      help: 'Time to create a session, by outcome',
      labelNames: ['outcome'],
      buckets: [0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 30],
      registers,
    }),
    execs: new Counter({ name: 'sandglass_execs_total', help: 'Commands run, by outcome', labelNames: ['outcome'], registers }),
    execSeconds: new Histogram({
      name: 'sandglass_exec_seconds',
      help: 'Time from request to result of a command',
      buckets: [0.0005, 0.001, 0.002, 0.005, 0.01, 0.05, 0.1, 0.5, 1, 5, 30, 120],
      registers,
    }),
    httpSeconds: new Histogram({
      name: 'sandglass_http_request_seconds',
      help: 'HTTP requests by route and status',
      labelNames: ['route', 'status'],
      buckets: [0.001, 0.005, 0.02, 0.1, 0.5, 2, 10],
      registers,
    }),
  }
}
