// Refuses requirements that no container can meet, before a session is created.
import type { MachineRequirements } from '../backend.ts'
import { NOBODY_ROOT } from '../limitations.ts'
import { unsupported } from '../machine/refusals.ts'

/** `isLocal`: the engine is on the daemon's machine. */
export function checkRequirements(requirements: MachineRequirements, isLocal: boolean): void {
  const { mounts, nestedVirt, readonlyRootfs, runtime } = requirements
  if (!readonlyRootfs)
    throw unsupported(`a writable root filesystem with docker: ${NOBODY_ROOT}`, 'use --backend oci or --backend microvm')
  if (nestedVirt) throw unsupported('nested virtualisation with docker', 'use --backend microvm, which has it with KVM')
  // SECURITY: the daemon cannot verify what another runtime than the engine's own has mounted.
  if (runtime !== null && mounts.length > 0)
    throw unsupported(
      'mounts with docker and a runtime of choice',
      'leave out the runtime, or use --backend oci or --backend microvm',
    )
  if (mounts.length > 0 && !(isLocal && process.geteuid?.() === 0))
    throw unsupported(
      'mounts with docker need a daemon that is root on the engine’s own machine',
      isLocal ? 'run the daemon as root' : 'use --backend oci or --backend microvm, whose sessions are on this machine',
    )
}
