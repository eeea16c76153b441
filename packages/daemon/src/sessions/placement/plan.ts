// The plan of a start: what a create asks for, or what a stored session needs, as one value. It is built and checked here, and then carried
// through admission, the preparation of the image, the store and the backend's start.
import { isFiltered, newId, SandglassError, type SessionSpec } from '@sandglass/contract'
import type { Backend, MachineRequirements, MachineSpec, RootImage, TrustedCa } from '../../backends/backend.ts'
import { allowedUnenforced } from '../../config/allowed-unenforced.ts'
import { layeredImage } from '../../images/store/image-row.ts'
import { refuseForbiddenImage } from '../../images/store/stored-images.ts'
import { secretVariables } from '../../secrets/session-secrets.ts'
import { findImage } from '../../store/images.ts'
import type { SessionContext } from '../context.ts'
import { packagesOf } from '../lifecycle/prepare-agents.ts'
import { refuseAboveCeiling } from '../limits/ceilings.ts'
import { networkSettings } from '../network/network-settings.ts'
import type { SessionRecord } from '../session-record.ts'
import { sessionEnv } from '../show.ts'
import { backendOf, chooseBackend, grantNestedVirt } from './choose-backend.ts'
import { allowedMounts, stillAllowedMounts } from './host-mounts.ts'
import { newRecord } from './new-record.ts'

export type SessionPlan = {
  /** As it is stored, or as a create is going to store it. */
  readonly session: SessionRecord
  readonly backend: Backend
  /** What the machine starts from. */
  readonly image: RootImage
  /** The certificate authority that its programs trust; null for a session without egress. */
  readonly trust: TrustedCa | null
}

/** The plan of a create, but for its image, which may have to be pulled first: `withImage` adds it. Throws what makes the request impossible. */
export async function planCreate(
  context: SessionContext,
  spec: SessionSpec,
  id: string = newId('sess_'),
): Promise<Omit<SessionPlan, 'image' | 'trust'>> {
  refuseAboveCeiling(context.config, spec)
  const fresh = newRecord(context, spec, id)
  const asked = { ...fresh, ...(await networkSettings(context, fresh, spec)) }
  await refuseForbiddenImage(context, asked.image)
  refuseBridge(context, asked)
  const wanted = await grantNestedVirt(context, { ...asked, mounts: await allowedMounts(context, asked.mounts) })
  const backend = await chooseBackend(context, asked.backend, requirementsOf(wanted))
  return { session: { ...wanted, backend: backend.name }, backend }
}

/** `imageId` is the image that the session's image name leads to; null for `host`. The session keeps it when the name moves on. */
export async function withImage(
  context: SessionContext,
  { session, backend }: Omit<SessionPlan, 'image' | 'trust'>,
  imageId: string | null,
): Promise<SessionPlan> {
  const trust = isFiltered(session.network) ? await context.egress.authorities.current() : null
  const resolved = { ...session, image_id: imageId, ca_fingerprint: trust?.fingerprint ?? null }
  return { session: resolved, backend, image: await rootImage(context, resolved), trust }
}

/** The plan of a stored session's next start. */
export const planStart = (context: SessionContext, session: SessionRecord): Promise<SessionPlan> =>
  withImage(context, { session, backend: backendOf(context, session.backend) }, session.image_id)

/**
 * What the backend is told. SECURITY: between the plan and this moment an image may have been pulled for an hour, or the session may have been
 * stopped while the configuration changed, so what the configuration allows is checked at the last moment.
 */
export async function machineSpec(context: SessionContext, { session, image, trust }: SessionPlan): Promise<MachineSpec> {
  refuseBridge(context, session)
  return {
    id: session.id,
    name: session.name,
    image,
    trust: trust && { fingerprint: trust.fingerprint, certificate: trust.certificate },
    cpuCores: session.cpu_cores,
    memoryMb: session.memory_mb,
    diskMb: session.disk_mb,
    pidsLimit: session.pids_limit,
    ...requirementsOf(session),
    egress: isFiltered(session.network),
    mounts: await stillAllowedMounts(context, session.mounts),
    packages: await packagesOf(context, session.agent_packages, context.closing),
    persist: session.mode === 'persistent',
    // A secret takes precedence over a plain value of the same name.
    env: { ...sessionEnv(context, session), ...(await secretVariables(context, session.secrets)) },
    allowUnenforced: allowedUnenforced(context.config, session.backend),
  }
}

/** What a host may not be able to give to any machine. */
const requirementsOf = (session: SessionRecord): MachineRequirements => ({
  network: session.network === 'bridge' ? 'bridge' : 'none',
  readonlyRootfs: session.readonly_rootfs,
  runtime: session.runtime,
  nestedVirt: session.nested_virt,
  canPause: session.on_expiry === 'pause',
  mounts: session.mounts,
})

function refuseBridge({ config }: SessionContext, { network }: SessionRecord): void {
  if (network === 'bridge' && !config.allow_bridge)
    throw new SandglassError('UNSUPPORTED', {
      what: 'network bridge is off here',
      next: 'set allow_bridge to true in the configuration, then run `sandglass shutdown` and try again',
    })
}

async function rootImage({ store, images }: SessionContext, { image, image_id }: SessionRecord): Promise<RootImage> {
  if (image_id === null) return { kind: 'host' }
  const row = await findImage(store, image_id)
  if (!row) throw new SandglassError('IMAGE_NOT_FOUND', { image })
  return layeredImage(images.blobs, row, image)
}
