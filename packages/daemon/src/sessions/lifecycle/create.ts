// POST /v1/sessions. The record is stored before its machine is started, so that reconcile finds a create that a crash interrupted.
import type { SessionSpec } from '@sandglass/contract'
import { pinImage } from '../../images/pull/pull.ts'
import type { Logger } from '../../log.ts'
import type { PendingRequest } from '../../store/idempotency.ts'
import { deleteSession } from '../../store/sessions.ts'
import type { SessionContext } from '../context.ts'
import { removeNetworkLog } from '../network/join-egress.ts'
import { requireDiskSpace, withDiskSpace } from '../placement/admission.ts'
import { planCreate, type SessionPlan, withImage } from '../placement/plan.ts'
import { insertRecord, type SessionRecord } from '../session-record.ts'
import { bringUp, isRefusal, storeStartFailure } from './bring-up.ts'
import { prepareImage } from './prepare-image.ts'
import { transition } from './transition.ts'

/** A pull over a slow line included. */
const PREPARE_TIMEOUT_MS = 3_600_000

export type CreateRequest = {
  readonly spec: SessionSpec
  /** The id of the session, for a caller that stores it first; a new one when absent. */
  readonly id?: string
  /** Stored in the same transaction as the record, so that not even a crash makes two sessions of one key. */
  readonly idempotency: PendingRequest | null
  /** Ends a create that has stored nothing yet. One that has is visible to others, and goes on. */
  readonly signal: AbortSignal
  readonly log: Logger
}

export async function createSession(context: SessionContext, request: CreateRequest): Promise<SessionRecord> {
  const timed = context.metrics.createSeconds.startTimer()
  try {
    const created = await create(context, request)
    timed({ outcome: 'ok' })
    return created
  } catch (error) {
    timed({ outcome: 'failed' })
    throw error
  }
}

async function create(context: SessionContext, request: CreateRequest): Promise<SessionRecord> {
  const { spec } = request
  const isStarted = spec.start !== false
  const signal = AbortSignal.any([request.signal, context.closing, AbortSignal.timeout(PREPARE_TIMEOUT_MS)])
  const draft = await planCreate(context, spec, request.id)
  if (isStarted) await requireDiskSpace(context, draft.session)
  const pinned = await pinImage(context, draft.session.image, signal)
  try {
    const planned = await withImage(context, draft, pinned.id)
    const plan = await prepareImage(context, planned, signal, request.idempotency?.key)
    return await context.mutex.run(plan.session.id, () =>
      isStarted
        ? withDiskSpace(context, plan.session, () => storeAndStart(context, plan, request))
        : storeStopped(context, plan, request),
    )
  } finally {
    pinned.release()
  }
}

async function storeStopped(context: SessionContext, plan: SessionPlan, request: CreateRequest): Promise<SessionRecord> {
  const { session } = await store(context, plan, request)
  return transition(context, session, 'skip_start', { reason: 'created_without_start' }, request.log)
}

async function storeAndStart(context: SessionContext, planned: SessionPlan, request: CreateRequest): Promise<SessionRecord> {
  const plan = await store(context, planned, request)
  try {
    return await bringUp(context, plan, request.log)
  } catch (error) {
    if (!isRefusal(error)) throw await storeStartFailure(context, plan.session, error, request.log)
    // An unavailable backend has started nothing and could not discard it.
    if (!error.is('BACKEND_UNAVAILABLE')) await discardRefusedStart(plan, request.log)
    await deleteSession(context.store, plan.session.id)
    await removeNetworkLog(context, plan.session.id)
    throw error
  }
}

/** The session's time counts from here: the pull of its image is not part of it. */
async function store(context: SessionContext, plan: SessionPlan, { idempotency, log }: CreateRequest): Promise<SessionPlan> {
  const now = context.now()
  const session = { ...plan.session, created_at: now, last_activity_at: now }
  await insertRecord(context.store, session, idempotency)
  context.changes.announce()
  log.info({ sessionId: session.id, to: session.status, reason: session.reason }, 'session changed state')
  return { ...plan, session }
}

/** A start that was refused late may have left a boot log, which no session would show. If this fails, reconcile removes it. */
async function discardRefusedStart({ session, backend }: SessionPlan, log: Logger): Promise<void> {
  try {
    await backend.discard(session.id)
  } catch (err) {
    log.warn({ err, sessionId: session.id }, 'files of a refused start could not be removed')
  }
}
