// Handlers of network logs, approvals and the certificate authority.
import type { NetworkEntry } from '@sandglass/contract'
import { allowApproval, denyApproval } from '../../approvals/answer.ts'
import { type ApprovalEvent, followApprovals, listApprovals } from '../../approvals/list.ts'
import { networkEntries, networkText, suggestPolicy } from '../../network-log/network-log.ts'
import { currentAuthority, rotateAuthority } from '../../sessions/network/authority.ts'
import type { Api, Handlers, SseEvent } from '../api.ts'
import { lastEventId } from '../requests/last-event-id.ts'

export const networkHandlers = ({ context }: Api) =>
  ({
    networkLog: async ({ params, query, request, signal }) => {
      const entries = await networkEntries(context, params.id, query, lastEventId(request), signal)
      return entryEvents(entries, query.follow ?? false)
    },
    networkLogFile: async ({ params }) => ({
      headers: { 'content-type': 'text/plain; charset=utf-8' },
      chunks: await networkText(context, params.id),
    }),
    suggestPolicy: ({ params }) => suggestPolicy(context, params.id),
    listApprovals: ({ query }) => listApprovals(context, query),
    approvalEvents: async ({ request, signal }) => approvalEvents(followApprovals(context, lastEventId(request), signal)),
    allowApproval: async ({ params, body, log }) => {
      const answered = await allowApproval(context, params.id, body)
      log.info({ approvalId: params.id, sessionId: answered.session_id, scope: body.scope }, 'held request allowed')
      return answered
    },
    denyApproval: async ({ params, body, log }) => {
      const answered = await denyApproval(context, params.id, body)
      log.info({ approvalId: params.id, sessionId: answered.session_id, scope: body.scope }, 'held request denied')
      return answered
    },
    getCa: () => currentAuthority(context),
    rotateCa: ({ log }) => rotateAuthority(context, log),
  }) satisfies Partial<Handlers>

/** The last event of a stream that follows tells a client that the session has ended, and that it need not connect again. */
async function* entryEvents(entries: AsyncIterable<NetworkEntry>, follows: boolean): AsyncGenerator<SseEvent, void, undefined> {
  for await (const data of entries) yield { id: data.id, event: 'entry', data }
  if (follows) yield { event: 'end', data: {} }
}

async function* approvalEvents(events: AsyncIterable<ApprovalEvent>): AsyncGenerator<SseEvent, void, undefined> {
  for await (const { revision, approval } of events) yield { id: revision, event: `approval.${approval.status}`, data: approval }
}
