// Refuses requirements that no machine of this backend can meet on this host, before a session is created.
import { lstat } from 'node:fs/promises'
import type { HostMount, MachineRequirements } from '../backend.ts'
import { unsupported } from '../machine/refusals.ts'
import type { Host } from './probe.ts'
import { runtimeProblem } from './runtime/runtimes.ts'

/** The runtime mounts a tmpfs there, over whatever else is mounted. */
const IN_TMPFS = /^\/(tmp|run)\//
const ROOT_OR_VM = 'run the daemon as root, or use --backend microvm'

export async function checkRequirements(
  host: Host,
  { readonlyRootfs, network, mounts, nestedVirt, canPause }: MachineRequirements,
): Promise<void> {
  const problem = runtimeProblem(host, 'runsc', host)
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
  for (const mount of mounts) await checkMount(host, mount)
}

/** SECURITY: the launcher repeats the check of the owner on the folder that it has opened; this one can be raced. */
async function checkMount({ kind, rootless, noWritableRoot }: Host, { source, target, readonly }: HostMount): Promise<void> {
  if (IN_TMPFS.test(target))
    throw unsupported(`a mount at ${target} with oci: what is there is in memory`, 'mount it elsewhere, like /mnt/NAME')
  if (readonly) return
  if (kind === 'runsc')
    throw unsupported(
      'a writable mount with runsc: gVisor can create no file there',
      'mount it read-only, or use another --runtime',
    )
  if (rootless)
    throw unsupported(
      'a writable mount as an ordinary user: files that the session creates there would not belong to you',
      'run the daemon as root, or mount it read-only',
    )
  if (noWritableRoot !== null) throw unsupported(`a writable mount: ${noWritableRoot}`)
  const { uid, gid } = await lstat(source)
  if (uid === 0 || gid === 0)
    throw unsupported(
      `a writable mount of ${source}: files that a session creates there would belong to root`,
      `give the folder to a user: chown USER:GROUP ${source}; or mount it read-only`,
    )
}
