// Handlers of sessions and their lifecycle.
import { bootLog, sessionStats } from '../../sessions/inside/machine.ts'
import { renewSession } from '../../sessions/lease/renew.ts'
import { createSession } from '../../sessions/lifecycle/create.ts'
import { purgeSession, terminateSession } from '../../sessions/lifecycle/destroy.ts'
import { pauseSession, resumeSession } from '../../sessions/lifecycle/pause.ts'
import { startSession } from '../../sessions/lifecycle/start.ts'
import { stopSession } from '../../sessions/lifecycle/stop.ts'
import { resizeSession } from '../../sessions/limits/resize.ts'
import { listSessions } from '../../sessions/list.ts'
import { getSession } from '../../sessions/live.ts'
import { showSession, showWithEnv } from '../../sessions/show.ts'
import type { PendingRequest } from '../../store/idempotency.ts'
import type { Api, Handlers } from '../api.ts'
import { createOnce } from '../requests/idempotency.ts'

export const sessionHandlers = ({ context }: Api) =>
  ({
    createSession: async ({ body, request, signal, log }) => {
      const create = (pending: PendingRequest | null, stop: AbortSignal) =>
        createSession(context, { spec: body, idempotency: pending, signal: stop, log })
      return showSession(await createOnce(context, request, body, create, signal))
    },
    listSessions: ({ query }) => listSessions(context, query),
    listPreparations: ({ query }) => context.preparations.list(query),
    getSession: async ({ params, query, log }) => {
      const record = await getSession(context, params.id)
      return query.reveal_env ? showWithEnv(context, record, log) : showSession(record)
    },
    deleteSession: async ({ params, query, log }) =>
      showSession(await (query.purge ? purgeSession : terminateSession)(context, params.id, log)),
    terminateSession: async ({ params, log }) => showSession(await terminateSession(context, params.id, log)),
    startSession: async ({ params, body, signal, log }) =>
      showSession(await startSession(context, params.id, body ?? {}, signal, log)),
    stopSession: async ({ params, log }) => showSession(await stopSession(context, params.id, log)),
    pauseSession: async ({ params, log }) => showSession(await pauseSession(context, params.id, log)),
    resumeSession: async ({ params, log }) => showSession(await resumeSession(context, params.id, log)),
    renewSession: async ({ params, body }) => showSession(await renewSession(context, params.id, body.ttl_seconds)),
    resizeSession: async ({ params, body, log }) => showSession(await resizeSession(context, params.id, body, log)),
    sessionStats: ({ params }) => sessionStats(context, params.id),
    sessionLogs: async ({ params }) => ({
      headers: { 'content-type': 'text/plain; charset=utf-8' },
      chunks: await bootLog(context, params.id),
    }),
  }) satisfies Partial<Handlers>
