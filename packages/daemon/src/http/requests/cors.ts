// Which web pages may call: those whose origin is among cors_origins.
import type { FastifyReply, FastifyRequest } from 'fastify'

const ALLOWED = {
  'access-control-allow-methods': 'GET, POST, PUT, DELETE',
  'access-control-allow-headers':
    'authorization, content-type, idempotency-key, last-event-id, range, x-build-args, x-request-id',
  'access-control-max-age': '600',
}

/**
 * SECURITY: a browser keeps an answer from a page of another origin unless the answer names that origin. A page that is named still
 * needs the key: what a browser adds by itself, such as cookies, is never allowed for.
 *
 * Before most calls a browser asks whether the page may make them, without the key; true when the request is such a question.
 */
export function admitOrigin(origins: readonly string[], { method, headers }: FastifyRequest, { raw }: FastifyReply): boolean {
  if (origins.length === 0) return false
  // Set on the raw response, which streams and file bodies are written to.
  raw.setHeader('vary', 'origin')
  if (headers.origin === undefined || !origins.includes(headers.origin)) return false
  raw.setHeader('access-control-allow-origin', headers.origin)
  raw.setHeader('access-control-expose-headers', 'x-request-id, content-range')
  if (method !== 'OPTIONS' || headers['access-control-request-method'] === undefined) return false
  for (const [name, value] of Object.entries(ALLOWED)) raw.setHeader(name, value)
  return true
}
