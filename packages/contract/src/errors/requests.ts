// Errors of requests, whatever they are about.
import type { Empty, ErrorRow } from './row.ts'

export const REQUESTS_ERRORS = {
  INVALID_REQUEST: {
    http: 400,
    exit: 2,
    text: (d: { issue: string; next?: string }) => d.issue,
    hint: (d: { next?: string }) => d.next ?? 'the API reference lists every field and its range',
  },
  TIMEOUT_TOO_LONG: {
    http: 400,
    exit: 2,
    text: (d: { timeout_ms: number; max_ms: number }) =>
      `a timeout of ${d.timeout_ms} ms is more than the maximum of ${d.max_ms} ms`,
    hint: 'ask for less, use exec/stream or a process (both have no maximum), or raise defaults.max_exec_timeout_ms',
  },
  UNAUTHORIZED: {
    http: 401,
    exit: 3,
    text: (_: Empty) => 'missing or wrong API key',
    hint: 'send Authorization: Bearer <key>; `sandglass config` shows where the key comes from',
  },
  ROUTE_NOT_FOUND: {
    http: 404,
    exit: 4,
    text: (d: { method: string; path: string }) => `no route ${d.method} ${d.path}`,
    hint: 'GET /openapi.json lists the routes',
  },
  IDEMPOTENCY_MISMATCH: {
    http: 409,
    exit: 5,
    text: (d: { key: string }) => `Idempotency-Key ${d.key} was used with another request`,
    hint: 'use a fresh key for a different request',
  },
  BODY_TOO_LARGE: {
    http: 413,
    exit: 2,
    text: (d: { limit: number }) => `request body is larger than ${d.limit} bytes`,
    hint: 'send file contents with PUT /v1/sessions/{id}/files, which takes any size',
  },
  BODY_TIMEOUT: {
    http: 408,
    exit: 3,
    text: (d: { stalled: boolean; seconds: number }) =>
      d.stalled ? `no body data for ${d.seconds} seconds` : `request body incomplete after ${d.seconds} seconds`,
    hint: 'send it again; slow_body_seconds in the configuration is the longest time without a byte',
  },
  TOO_MANY_WAITING: {
    http: 429,
    exit: 3,
    text: (d: { what: string; limit?: number }) =>
      `too many ${d.what}${d.limit === undefined ? '' : ` (the limit is ${d.limit})`}; try again later`,
    hint: 'wait until some of them end, or end what they are waiting for',
  },
  SLOW_READER: {
    http: 503,
    exit: 3,
    text: (_: Empty) => 'the reader fell too far behind and was disconnected',
    hint: 'attach again: recent output is kept',
  },
  USAGE: {
    http: 400,
    exit: 2,
    text: (d: { issue: string; next?: string }) => d.issue,
    hint: (d: { next?: string }) => d.next ?? '`sandglass help` lists the commands',
  },
} as const satisfies Record<string, ErrorRow>
