// What no machine of this backend can have, said before there is one.
import { lstat } from 'node:fs/promises'
import type { HostMount, MachineWishes } from '../backend.ts'
import { unsupported } from '../machine/unsupported.ts'
import type { Host } from './probe.ts'
import { unusable } from './runtime/runtimes.ts'

/** In memory, and mounted by the runtime over whatever is there. */
const IN_MEMORY = /^\/(tmp|run)\//
const ROOT_OR_VM = 'run the daemon as root, or use --backend microvm'

export async function refuseWishes(
  host: Host,
  { readonlyRootfs, network, mounts, nestedVirt, canPause }: MachineWishes,
): Promise<void> {
  const problem = unusable(host, 'runsc', host)
  if (problem) throw unsupported(problem.why, `${problem.fix}, or use another --runtime`)
  if (!readonlyRootfs && host.noWritableRoot !== null)
    throw unsupported(host.noWritableRoot, host.rootless ? ROOT_OR_VM : 'use --backend microvm')
  if (network !== 'none')
    throw unsupported(`network ${network} with oci`, 'use --backend docker or --backend microvm, which have it')
  if (nestedVirt) throw unsupported('nested virtualisation with oci', 'use --backend microvm, which has it with KVM')
  if (canPause && host.cgroups?.roots.freezer === undefined)
    throw unsupported(
      'on_expiry pause: the daemon has no cgroup to freeze processes with',
      '`sandglass doctor` says how to give it one; or use --on-expiry stop',
    )
  for (const mount of mounts) await refuseMount(host, mount)
}

/** The launcher looks again when it has the folder open. */
async function refuseMount({ kind, rootless, noWritableRoot }: Host, { source, target, readonly }: HostMount): Promise<void> {
  if (IN_MEMORY.test(target))
    throw unsupported(`a mount at ${target} with oci: what is there is in memory`, 'mount it elsewhere, like /mnt/NAME')
  if (readonly) return
  if (kind === 'runsc')
    throw unsupported(
      'a writable mount with runsc: gVisor can make no file there',
      'mount it read-only, or use another --runtime',
    )
  if (rootless)
    throw unsupported(
      'a writable mount as an ordinary user: its files could not be the user’s',
      'run the daemon as root, or mount it read-only',
    )
  if (noWritableRoot !== null) throw unsupported(`a writable mount: ${noWritableRoot}`)
  const { uid, gid } = await lstat(source)
  if (uid === 0 || gid === 0)
    throw unsupported(
      `a writable mount of ${source}: what a session leaves there would be root’s`,
      `give the folder to a user: chown USER:GROUP ${source}; or mount it read-only`,
    )
}
