// What a session asks of its machine beyond an image and limits. Only the operator's configuration can allow some of it.
import { SandglassError, type SessionSpec } from '@sandglass/contract'
import type { MachineWishes } from '../../backends/backend.ts'
import type { SessionRow } from '../../store/tables.ts'
import type { SessionContext } from '../context.ts'
import type { Lifetime } from '../lease/lifetime.ts'
import { allowedMounts, stillAllowedMounts } from './host-mounts.ts'

export async function wishesOf(context: SessionContext, spec: SessionSpec, { on_expiry }: Lifetime): Promise<MachineWishes> {
  const { config } = context
  const network = spec.network ?? config.defaults.network
  refuseBridge(context, network)
  return {
    network,
    readonlyRootfs: spec.readonly_rootfs ?? config.defaults.readonly_rootfs,
    runtime: spec.runtime ?? null,
    nestedVirt: spec.nested_virt ?? false,
    canPause: on_expiry === 'pause',
    mounts: await allowedMounts(context, spec.mounts),
  }
}

/** Those of a session that is stored. SECURITY: the configuration may allow less than it did when the session was made. */
export async function wishesOfRow(context: SessionContext, row: SessionRow): Promise<MachineWishes> {
  refuseBridge(context, row.network)
  return {
    network: row.network,
    readonlyRootfs: row.readonly_rootfs === 1,
    runtime: row.runtime,
    nestedVirt: row.nested_virt === 1,
    canPause: row.on_expiry === 'pause',
    mounts: await stillAllowedMounts(context, JSON.parse(row.mounts)),
  }
}

function refuseBridge({ config }: SessionContext, network: MachineWishes['network']): void {
  if (network === 'bridge' && !config.allow_bridge)
    throw new SandglassError('UNSUPPORTED', {
      what: 'network bridge is off here',
      next: 'set allow_bridge to true in the configuration, then run `sandglass shutdown` and try again',
    })
}
