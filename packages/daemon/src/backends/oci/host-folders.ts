// Folders of the host in a machine: which can be shown here, and whose their files are inside.
import { lstat } from 'node:fs/promises'
import { SandglassError } from '@sandglass/contract/tables'
import type { HostMount } from '../backend.ts'
import { SANDBOX_ID } from '../image-users.ts'
import { type IdRange, outsideId } from './id-ranges.ts'
import type { Host } from './probe.ts'

/** In memory, and mounted by the runtime over whatever is there. */
const IN_MEMORY = /^\/(tmp|run)\//
/** Where the user owns what is made to mount on. */
const USERS_OWN = /^\/(workspace|home\/sandbox)\//

/** Throws for a mount that no machine here can have. The launcher looks again when it has the folder open. */
export async function refuseMounts({ rootless, noWritableRoot }: Host, mounts: readonly HostMount[]): Promise<void> {
  for (const { source, target, readonly } of mounts) {
    if (IN_MEMORY.test(target)) throw unsupported(`a mount at ${target} with oci: what is there is in memory`)
    if (readonly) continue
    if (rootless)
      throw unsupported('a writable mount as an ordinary user: its files could not be the user’s. Run the daemon as root')
    if (noWritableRoot !== null) throw unsupported(`a writable mount: ${noWritableRoot}`)
    const { uid, gid } = await lstat(source)
    if (uid === 0 || gid === 0)
      throw unsupported(
        `a writable mount of ${source}: what a session leaves there would be root’s. Give the folder to a user: chown USER:GROUP ${source}`,
      )
  }
}

const unsupported = (what: string) => new SandglassError('UNSUPPORTED', { what })

/** The mounts as the launcher takes them, those above before those below. */
export function hostFolders(host: Host, mounts: readonly HostMount[], ids: readonly IdRange[]): object[] {
  const [root, user] = [outsideId(ids, 0), outsideId(ids, SANDBOX_ID)]
  const shown = host.noWritableRoot === null ? user : 0
  return mounts
    .toSorted((a, b) => (a.target < b.target ? -1 : 1))
    .map(({ source, target, readonly }) => {
      const owner = USERS_OWN.test(target) ? user : root
      return { source, target, readonly, uid: shown, gid: shown, place_uid: owner, place_gid: owner }
    })
}
