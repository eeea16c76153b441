// Handlers of the event streams of sessions.
import type { SessionEventRecord } from '@sandglass/contract'
import { followAll, followSession } from '../../sessions/follow.ts'
import type { Api, Handlers, SseEvent } from '../api.ts'
import { lastEventId } from '../requests/last-event-id.ts'

export const eventHandlers = ({ context }: Api) =>
  ({
    events: async ({ request, signal }) => records(await followAll(context, lastEventId(request), signal)),
    sessionEvents: async ({ params, request, signal }) =>
      records(await followSession(context, params.id, lastEventId(request), signal)),
  }) satisfies Partial<Handlers>

async function* records(events: AsyncIterable<SessionEventRecord>): AsyncGenerator<SseEvent, void, undefined> {
  for await (const data of events) yield { id: data.id, event: data.type, data }
}
