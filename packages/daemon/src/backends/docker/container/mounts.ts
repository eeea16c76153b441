// Folders of the host in a container. The engine mounts by name, so what it mounted is looked at before anything of the user's runs.
import { constants } from 'node:fs'
import { lstat, open, readlink } from 'node:fs/promises'
import type { HostMount } from '../../backend.ts'

/** Not named by node:fs. */
const O_PATH = 0o10000000

/**
 * SECURITY: between the check of a path and its mount, whoever may write there can put a link in its place. A folder that is still at
 * its own real path is the one that was allowed; a container that shows another one is not used.
 */
export async function verifyMounts(pid: number, mounts: readonly HostMount[]): Promise<void> {
  for (const { source, target } of mounts) {
    const allowed = await open(source, O_PATH | constants.O_DIRECTORY | constants.O_NOFOLLOW)
    try {
      const [own, shown] = [await allowed.stat(), await shownAt(pid, target)]
      const isItself = (await readlink(`/proc/self/fd/${allowed.fd}`)) === source
      if (!isItself || own.dev !== shown.dev || own.ino !== shown.ino) throw new Error(`what is at ${target} is not ${source}`)
    } finally {
      await allowed.close()
    }
  }
}

/** SECURITY: a link on the way would be followed in the daemon's own root, and could lead to the very folder that the container does not have. */
async function shownAt(pid: number, target: string) {
  let path = `/proc/${pid}/root`
  let shown = await lstat(`${path}/`)
  for (const name of target.split('/').filter(Boolean)) {
    path += `/${name}`
    shown = await lstat(path)
    if (!shown.isDirectory()) throw new Error(`${target} leads over a link or a file`)
  }
  return shown
}
