// Routes of the daemon itself.
import { z } from 'zod'
import { Bytes, type RouteSchemas } from './schemas.ts'

export const DAEMON_ROUTES = {
  healthz: {
    summary: 'The daemon is up',
    public: true,
    reply: z.object({ status: z.literal('ok'), version: z.string() }),
    errors: [],
  },
  readyz: {
    summary: 'The daemon can create sessions',
    public: true,
    reply: z.object({
      status: z.enum(['ready', 'not_ready']),
      backends: z.array(z.object({ name: z.string(), available: z.boolean(), why: z.string().nullable() })),
    }),
    errors: [],
  },
  metrics: { summary: 'Prometheus metrics', reply: Bytes, errors: [] },
  openapi: { summary: 'This API as OpenAPI 3.1', public: true, reply: z.unknown(), errors: [] },
} as const satisfies Record<string, RouteSchemas>
