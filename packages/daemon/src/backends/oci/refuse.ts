// What no machine of this backend can have, said before there is one.
import { lstat } from 'node:fs/promises'
import { SandglassError } from '@sandglass/contract/tables'
import type { HostMount, MachineWishes } from '../backend.ts'
import type { Host } from './probe.ts'

/** In memory, and mounted by the runtime over whatever is there. */
const IN_MEMORY = /^\/(tmp|run)\//

export async function refuseWishes(host: Host, { readonlyRootfs, network, mounts, nestedVirt }: MachineWishes): Promise<void> {
  if (!readonlyRootfs && host.noWritableRoot !== null) throw unsupported(host.noWritableRoot)
  if (network !== 'none') throw unsupported(`network ${network} with oci: docker and microvm have it`)
  if (nestedVirt) throw unsupported('nested virtualisation with oci: microvm has it')
  for (const mount of mounts) await refuseMount(host, mount)
}

/** The launcher looks again when it has the folder open. */
async function refuseMount({ rootless, noWritableRoot }: Host, { source, target, readonly }: HostMount): Promise<void> {
  if (IN_MEMORY.test(target)) throw unsupported(`a mount at ${target} with oci: what is there is in memory`)
  if (readonly) return
  if (rootless)
    throw unsupported('a writable mount as an ordinary user: its files could not be the user’s. Run the daemon as root')
  if (noWritableRoot !== null) throw unsupported(`a writable mount: ${noWritableRoot}`)
  const { uid, gid } = await lstat(source)
  if (uid === 0 || gid === 0)
    throw unsupported(
      `a writable mount of ${source}: what a session leaves there would be root’s. Give the folder to a user: chown USER:GROUP ${source}`,
    )
}

const unsupported = (what: string) => new SandglassError('UNSUPPORTED', { what })
