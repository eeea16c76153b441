// Handlers of the event streams of sessions.
import { SandglassError, type SessionEventRecord } from '@sandglass/contract'
import { followAll, followSession } from '../../sessions/follow.ts'
import type { Api, Handlers, SseEvent } from '../api.ts'

export const eventHandlers = ({ context }: Api) =>
  ({
    events: async ({ request, signal }) => records(await followAll(context, lastId(request.headers['last-event-id']), signal)),
    sessionEvents: async ({ params, request, signal }) =>
      records(await followSession(context, params.id, lastId(request.headers['last-event-id']), signal)),
  }) satisfies Partial<Handlers>

async function* records(events: AsyncIterable<SessionEventRecord>): AsyncGenerator<SseEvent, void, undefined> {
  for await (const data of events) yield { id: data.id, event: data.type, data }
}

function lastId(header: string | string[] | undefined): number | null {
  if (header === undefined || header === '') return null
  if (!/^\d{1,15}$/.test(String(header)))
    throw new SandglassError('INVALID_REQUEST', { issue: 'Last-Event-ID: is not an id of this stream' })
  return Number(header)
}
