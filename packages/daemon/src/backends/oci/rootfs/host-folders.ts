// Host mounts of a session as the launcher takes them, with the owner that their files have inside.
import type { HostMount } from '../../backend.ts'
import type { HostFolder } from '../../launcher/schema.ts'
import { SANDBOX_ID } from '../../rootfs/image-users.ts'
import type { Host } from '../probe.ts'
import { type IdRange, outsideId } from '../users/id-ranges.ts'

/** Below these paths the user sandbox owns the folders that are created as mount points; elsewhere root does. */
const OWNED_BY_USER = /^\/(workspace|home\/sandbox)\//

/** Sorted so that a mount comes before those below it. */
export function hostFolders(host: Host, mounts: readonly HostMount[], ids: readonly IdRange[]): HostFolder[] {
  const [root, user] = [outsideId(ids, 0), outsideId(ids, SANDBOX_ID)]
  const shown = host.noWritableRoot === null ? user : 0
  return mounts
    .toSorted((a, b) => (a.target < b.target ? -1 : 1))
    .map(({ source, target, readonly }) => {
      const owner = OWNED_BY_USER.test(target) ? user : root
      return { source, target, readonly, uid: shown, gid: shown, point_uid: owner, point_gid: owner }
    })
}
