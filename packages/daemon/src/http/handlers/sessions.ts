import { getSession } from '../../sessions/get.ts'
import { bootLog } from '../../sessions/inside/boot-log.ts'
import { sessionStats } from '../../sessions/inside/stats.ts'
import { renewSession } from '../../sessions/lease/renew.ts'
import { createSession } from '../../sessions/lifecycle/create.ts'
import { purgeSession, terminateSession } from '../../sessions/lifecycle/destroy.ts'
import { pauseSession, resumeSession } from '../../sessions/lifecycle/pause.ts'
import { startSession } from '../../sessions/lifecycle/start.ts'
import { stopSession } from '../../sessions/lifecycle/stop.ts'
import { resizeSession } from '../../sessions/limits/resize.ts'
import { listSessions } from '../../sessions/list.ts'
import { showSession, showWithEnv } from '../../sessions/show.ts'
import type { Api, Handlers } from '../api.ts'
import { createOnce, type Pending } from '../requests/idempotency.ts'

export const sessionHandlers = ({ world }: Api) =>
  ({
    createSession: async ({ body, request, signal, log }) => {
      const create = (pending: Pending | null, stop: AbortSignal) => createSession(world, body, pending, stop, log)
      return showSession(await createOnce(world, request, body, create, signal))
    },
    listSessions: ({ query }) => listSessions(world, query),
    listPreparations: () => ({ items: world.preparations.list() }),
    getSession: async ({ params, query, log }) => {
      const row = await getSession(world, params.id)
      return query.reveal_env ? showWithEnv(world, row, log) : showSession(row)
    },
    deleteSession: async ({ params, query, log }) =>
      showSession(await (query.purge ? purgeSession : terminateSession)(world, params.id, log)),
    terminateSession: async ({ params, log }) => showSession(await terminateSession(world, params.id, log)),
    startSession: async ({ params, signal, log }) => showSession(await startSession(world, params.id, signal, log)),
    stopSession: async ({ params, log }) => showSession(await stopSession(world, params.id, log)),
    pauseSession: async ({ params, log }) => showSession(await pauseSession(world, params.id, log)),
    resumeSession: async ({ params, log }) => showSession(await resumeSession(world, params.id, log)),
    renewSession: async ({ params, body }) => showSession(await renewSession(world, params.id, body.ttl_seconds)),
    resizeSession: async ({ params, body, log }) => showSession(await resizeSession(world, params.id, body, log)),
    sessionStats: ({ params }) => sessionStats(world, params.id),
    sessionLogs: async ({ params }) => ({
      headers: { 'content-type': 'text/plain; charset=utf-8' },
      chunks: await bootLog(world, params.id),
    }),
  }) satisfies Partial<Handlers>
