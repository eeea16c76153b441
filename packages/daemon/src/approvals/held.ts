// Stores the held requests that the egress process reports.
//
// SECURITY: method, URL and host come from a sandbox, and through a process that reads hostile bytes. What does not fit is not stored.
import type { HeldRequest } from '@sandglass/egress/control'
import type { SessionContext } from '../sessions/context.ts'
import { type ApprovalChange, pendingApprovals, putApprovals } from '../store/approvals.ts'
import type { ApprovalRow } from '../store/tables.ts'

const LONGEST = { id: 64, method: 64, url: 8192, host: 255 }

/** Changes that wait to be written. A change replaces an earlier one of the same approval, so that a flood costs one write. */
export class HeldWriter {
  readonly #context: () => SessionContext
  readonly #waiting = new Map<string, HeldRequest>()
  #writing: Promise<void> | null = null

  constructor(context: () => SessionContext) {
    this.#context = context
  }

  add(held: HeldRequest): void {
    if (!isBounded(held)) {
      this.#context().log.warn({ sessionId: held.sessionId }, 'held request is too long; not stored')
      return
    }
    this.#waiting.set(held.id, held)
    this.#writing ??= this.#write().finally(() => {
      this.#writing = null
    })
  }

  /** Resolves when everything so far is stored. */
  async settled(): Promise<void> {
    while (this.#writing !== null) await this.#writing
  }

  async #write(): Promise<void> {
    const { store, log, approvalChanges } = this.#context()
    while (this.#waiting.size > 0) {
      const held = [...this.#waiting.values()]
      this.#waiting.clear()
      try {
        await putApprovals(store, held.map(toChange))
        approvalChanges.announce()
      } catch (err) {
        log.error({ err }, 'held requests could not be stored')
      }
    }
  }
}

/** Called after each connection: what the egress process no longer holds was refused. */
export async function reconcileHeld(context: SessionContext, held: readonly HeldRequest[]): Promise<void> {
  const known = new Set(held.map(({ id }) => id))
  const gone = (await pendingApprovals(context.store)).filter(({ id }) => !known.has(id))
  await putApprovals(context.store, [...gone.map(expired), ...held.filter(isBounded).map(toChange)])
  context.approvalChanges.announce()
}

/** A held request that the egress process does not have any more. */
export const expired = ({ tenant: _, revision: __, ...row }: ApprovalRow): ApprovalChange => ({
  ...row,
  status: 'expired',
  requests: 0,
})

export const toChange = (held: HeldRequest): ApprovalChange => ({
  id: held.id,
  session_id: held.sessionId,
  session_name: held.sessionName,
  status: held.status,
  method: held.method,
  url: held.url,
  host: held.host,
  port: held.port,
  scope: held.scope,
  requests: held.requests,
  created_at: held.requestedAt,
  expires_at: held.expiresAt,
  answered_at: held.answeredAt,
})

const isBounded = ({ id, method, url, host }: HeldRequest) =>
  id.length <= LONGEST.id && (method ?? '').length <= LONGEST.method && url.length <= LONGEST.url && host.length <= LONGEST.host
