// What no container can have, said before there is one.
import type { MachineWishes } from '../backend.ts'
import { NOBODY_ROOT } from '../conformance/limitations.ts'
import { unsupported } from '../machine/unsupported.ts'

/** `isNear`: the engine is on this machine. */
export function refuseWishes({ mounts, nestedVirt, readonlyRootfs, runtime }: MachineWishes, isNear: boolean): void {
  if (!readonlyRootfs)
    throw unsupported(`a writable root filesystem with docker: ${NOBODY_ROOT}`, 'use --backend oci or --backend microvm')
  if (nestedVirt) throw unsupported('nested virtualisation with docker', 'use --backend microvm, which has it with KVM')
  // SECURITY: what such a runtime mounts cannot be looked at from here.
  if (runtime !== null && mounts.length > 0)
    throw unsupported(
      'mounts with docker and a runtime of choice',
      'leave out the runtime, or use --backend oci or --backend microvm',
    )
  if (mounts.length > 0 && !(isNear && process.geteuid?.() === 0))
    throw unsupported(
      'mounts with docker need a daemon that is root on the engine’s own machine',
      isNear ? 'run the daemon as root' : 'use --backend oci or --backend microvm, whose sessions are on this machine',
    )
}
