// POST /v1/sessions: a row first, then its machine, so that a crash between the two is found by reconcile.
import { DEFAULT_TEMPLATE, newId, type SessionSpec } from '@sandglass/contract'
import type { MachineWishes } from '../../backends/backend.ts'
import { holdImage, refuseForbiddenImage } from '../../images/store/held-image.ts'
import type { Logger } from '../../log.ts'
import { sealEnv } from '../../secrets/seal.ts'
import { deleteSession, insertSession } from '../../store/sessions.ts'
import type { IdempotencyRow, SessionRow } from '../../store/tables.ts'
import type { SessionContext } from '../context.ts'
import { type Lifetime, lifetimeOf } from '../lease/lifetime.ts'
import { refuseAboveCeiling } from '../limits/ceilings.ts'
import { requireRoom, withRoom } from '../placement/admission.ts'
import { backendOf, chooseBackend, grantedWishes } from '../placement/choose-backend.ts'
import { wishesOf } from '../placement/requirements.ts'
import { bringUp, isRefusal, startFailure, WORKSPACE } from './bring-up.ts'
import { madeUpName } from './names.ts'
import { prepareImage } from './prepare-image.ts'
import { transition } from './transition.ts'

/**
 * `idempotency` is stored together with the row, so that a key names its session from the first moment. The signal ends a create that
 * has no row yet; one that has is there for others to see, and goes on.
 */
export async function createSession(
  context: SessionContext,
  spec: SessionSpec,
  idempotency: Omit<IdempotencyRow, 'session_id'> | null,
  signal: AbortSignal,
  log: Logger,
): Promise<SessionRow> {
  const timed = context.metrics.createSeconds.startTimer()
  try {
    const created = await create(context, spec, idempotency, signal, log)
    timed({ outcome: 'ok' })
    return created
  } catch (error) {
    timed({ outcome: 'failed' })
    throw error
  }
}

/** A pull over a slow line included. */
const PREPARE_TIMEOUT_MS = 3_600_000

async function create(
  context: SessionContext,
  spec: SessionSpec,
  idempotency: Omit<IdempotencyRow, 'session_id'> | null,
  wanted: AbortSignal,
  log: Logger,
): Promise<SessionRow> {
  refuseAboveCeiling(context.config, spec)
  const lifetime = lifetimeOf(spec, context.config.session_ttl_seconds)
  const image = spec.image ?? context.config.default_image
  await refuseForbiddenImage(context, image)
  const name = spec.backend ?? 'auto'
  const wishes = await grantedWishes(context, name, await wishesOf(context, spec, lifetime))
  const backend = await chooseBackend(context, name, wishes)
  const disk_mb = spec.disk_mb ?? context.config.defaults.disk_mb
  const disk = { id: newId('sess_'), backend: backend.name, disk_mb }
  if (spec.start !== false) await requireRoom(context, disk)
  const signal = AbortSignal.any([wanted, context.closing, AbortSignal.timeout(PREPARE_TIMEOUT_MS)])
  const { id, release } = await holdImage(context, image, signal)
  try {
    await prepareImage(context, backend, { image, image_id: id }, signal)
    const row = newRow(context, spec, { ...lifetime, ...disk, image, image_id: id, ...columns(wishes) })
    return await context.mutex.run(row.id, () => storeAndStart(context, row, spec.start !== false, idempotency, log))
  } finally {
    release()
  }
}

async function storeAndStart(
  context: SessionContext,
  row: SessionRow,
  start: boolean,
  idempotency: Omit<IdempotencyRow, 'session_id'> | null,
  log: Logger,
): Promise<SessionRow> {
  if (start) return withRoom(context, row, () => storeAndRun(context, row, idempotency, log))
  await store(context, row, idempotency, log)
  return transition(context, row, 'hold', { reason: 'created_without_start' }, log)
}

async function store(
  context: SessionContext,
  row: SessionRow,
  idempotency: Omit<IdempotencyRow, 'session_id'> | null,
  log: Logger,
): Promise<void> {
  await insertSession(context.store, row, idempotency && { ...idempotency, session_id: row.id })
  context.changes.announce()
  log.info({ sessionId: row.id, to: row.status, reason: row.reason }, 'session changed state')
}

async function storeAndRun(
  context: SessionContext,
  row: SessionRow,
  idempotency: Omit<IdempotencyRow, 'session_id'> | null,
  log: Logger,
): Promise<SessionRow> {
  await store(context, row, idempotency, log)
  try {
    return (await bringUp(context, row, log)).row
  } catch (error) {
    if (isRefusal(error)) {
      // A backend that cannot be used has begun nothing, and would be asked in vain.
      if (!error.is('BACKEND_UNAVAILABLE')) await discardLog(context, row, log)
      await deleteSession(context.store, row.id)
      throw error
    }
    const failure = startFailure(row, error)
    await transition(context, row, 'fail', { reason: 'start_failed', error_message: failure.detail.why }, log)
    throw failure
  }
}

/** A start that was refused late has left one, which no session is there to show. Where it stays the next daemon removes it. */
async function discardLog(context: SessionContext, { id, backend: name }: SessionRow, log: Logger): Promise<void> {
  try {
    await backendOf(context, name).discard(id)
  } catch (err) {
    log.warn({ err, sessionId: id }, 'a start that was refused left something')
  }
}

const columns = ({ network, readonlyRootfs, runtime, nestedVirt, mounts }: MachineWishes) => ({
  network,
  readonly_rootfs: readonlyRootfs ? (1 as const) : (0 as const),
  runtime,
  nested_virt: nestedVirt ? (1 as const) : (0 as const),
  mounts: JSON.stringify(mounts),
})

type Machine = Pick<
  SessionRow,
  'id' | 'image' | 'image_id' | 'backend' | 'disk_mb' | 'network' | 'readonly_rootfs' | 'runtime' | 'nested_virt' | 'mounts'
>

function newRow(context: SessionContext, spec: SessionSpec, machine: Machine & Lifetime): SessionRow {
  const { config } = context
  const now = context.now()
  const name = spec.name ?? madeUpName()
  const env = spec.env ?? {}
  return {
    name,
    live_name: name,
    template_id: DEFAULT_TEMPLATE,
    ...machine,
    container_id: null,
    status: 'creating',
    is_final: 0,
    reason: 'requested',
    error_message: null,
    limit_hit: null,
    agent_id: spec.agent_id ?? (machine.mode === 'persistent' ? name : null),
    cwd: WORKSPACE,
    cpu_cores: spec.cpu_cores ?? config.defaults.cpu_cores,
    memory_mb: spec.memory_mb ?? config.defaults.memory_mb,
    pids_limit: spec.pids_limit ?? config.defaults.pids_limit,
    resizing: null,
    unenforced: '[]',
    env_names: JSON.stringify(Object.keys(env)),
    env_sealed: Object.keys(env).length > 0 ? sealEnv(context.secretKey, machine.id, env) : null,
    labels: JSON.stringify(spec.labels ?? {}),
    created_at: now,
    started_at: null,
    last_activity_at: now,
    expires_at: null,
    terminated_at: null,
    delete_at: null,
  }
}
