// Folders of the host in a machine, and whose their files are inside.
import type { HostMount } from '../../backend.ts'
import { SANDBOX_ID } from '../../rootfs/image-users.ts'
import type { Host } from '../probe.ts'
import { type IdRange, outsideId } from '../users/id-ranges.ts'

/** Where the user owns what is made to mount on. */
const USERS_OWN = /^\/(workspace|home\/sandbox)\//

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
