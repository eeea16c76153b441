// The id of the last event that a client has seen, for streams that resume.
import { SandglassError } from '@sandglass/contract'
import type { FastifyRequest } from 'fastify'

/** Null for a client that has seen none. */
export function lastEventId({ headers }: Pick<FastifyRequest, 'headers'>): number | null {
  const header = headers['last-event-id']
  if (header === undefined || header === '') return null
  if (!/^\d{1,15}$/.test(String(header)))
    throw new SandglassError('INVALID_REQUEST', { issue: 'Last-Event-ID: is not an id of this stream' })
  return Number(header)
}
