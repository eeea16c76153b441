// POST /v1/sessions: a row first, then its machine, so that a crash between the two is found by reconcile.
import { DEFAULT_TEMPLATE, newId, type SessionSpec } from '@sandglass/contract'
import type { MachineWishes } from '../../backends/backend.ts'
import { holdImage, refuseForbiddenImage } from '../../images/store/held-image.ts'
import type { Logger } from '../../log.ts'
import { sealEnv } from '../../secrets/seal.ts'
import { deleteSession, insertSession } from '../../store/sessions.ts'
import type { IdempotencyRow, SessionRow } from '../../store/tables.ts'
import type { World } from '../context.ts'
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
  world: World,
  spec: SessionSpec,
  idempotency: Omit<IdempotencyRow, 'session_id'> | null,
  signal: AbortSignal,
  log: Logger,
): Promise<SessionRow> {
  const timed = world.metrics.createSeconds.startTimer()
  try {
    const created = await create(world, spec, idempotency, signal, log)
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
  world: World,
  spec: SessionSpec,
  idempotency: Omit<IdempotencyRow, 'session_id'> | null,
  wanted: AbortSignal,
  log: Logger,
): Promise<SessionRow> {
  refuseAboveCeiling(world.config, spec)
  const lifetime = lifetimeOf(spec, world.config.session_ttl_seconds)
  const image = spec.image ?? world.config.default_image
  await refuseForbiddenImage(world, image)
  const name = spec.backend ?? 'auto'
  const wishes = await grantedWishes(world, name, await wishesOf(world, spec, lifetime))
  const backend = await chooseBackend(world, name, wishes)
  const disk_mb = spec.disk_mb ?? world.config.defaults.disk_mb
  const disk = { id: newId('sess_'), backend: backend.name, disk_mb }
  if (spec.start !== false) await requireRoom(world, disk)
  const signal = AbortSignal.any([wanted, world.closing, AbortSignal.timeout(PREPARE_TIMEOUT_MS)])
  const { id, release } = await holdImage(world, image, signal)
  try {
    await prepareImage(world, backend, { image, image_id: id }, signal)
    const row = newRow(world, spec, { ...lifetime, ...disk, image, image_id: id, ...columns(wishes) })
    return await world.mutex.run(row.id, () => storeAndStart(world, row, spec.start !== false, idempotency, log))
  } finally {
    release()
  }
}

async function storeAndStart(
  world: World,
  row: SessionRow,
  start: boolean,
  idempotency: Omit<IdempotencyRow, 'session_id'> | null,
  log: Logger,
): Promise<SessionRow> {
  if (start) return withRoom(world, row, () => storeAndRun(world, row, idempotency, log))
  await store(world, row, idempotency, log)
  return transition(world, row, 'hold', { reason: 'created_without_start' }, log)
}

async function store(
  world: World,
  row: SessionRow,
  idempotency: Omit<IdempotencyRow, 'session_id'> | null,
  log: Logger,
): Promise<void> {
  await insertSession(world.store, row, idempotency && { ...idempotency, session_id: row.id })
  world.changes.announce()
  log.info({ sessionId: row.id, to: row.status, reason: row.reason }, 'session changed state')
}

async function storeAndRun(
  world: World,
  row: SessionRow,
  idempotency: Omit<IdempotencyRow, 'session_id'> | null,
  log: Logger,
): Promise<SessionRow> {
  await store(world, row, idempotency, log)
  try {
    return (await bringUp(world, row, log)).row
  } catch (error) {
    if (isRefusal(error)) {
      // A backend that cannot be used has begun nothing, and would be asked in vain.
      if (!error.is('BACKEND_UNAVAILABLE')) await discardLog(world, row, log)
      await deleteSession(world.store, row.id)
      throw error
    }
    const failure = startFailure(row, error)
    await transition(world, row, 'fail', { reason: 'start_failed', error_message: failure.detail.why }, log)
    throw failure
  }
}

/** A start that was refused late has left one, which no session is there to show. Where it stays the next daemon removes it. */
async function discardLog(world: World, { id, backend: name }: SessionRow, log: Logger): Promise<void> {
  try {
    await backendOf(world, name).discard(id)
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

function newRow(world: World, spec: SessionSpec, machine: Machine & Lifetime): SessionRow {
  const { config } = world
  const now = world.now()
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
    env_sealed: Object.keys(env).length > 0 ? sealEnv(world.secretKey, machine.id, env) : null,
    labels: JSON.stringify(spec.labels ?? {}),
    created_at: now,
    started_at: null,
    last_activity_at: now,
    expires_at: null,
    terminated_at: null,
    delete_at: null,
  }
}
