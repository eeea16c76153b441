// Connects to the runner's socket through /proc/PID/root of the container, so nothing of the host is mounted into the container for it. Only root
// on the engine's own machine can do this.
import { constants } from 'node:fs'
import { type FileHandle, open } from 'node:fs/promises'
import type { Duplex } from 'node:stream'
import { RunnerSocket } from '@sandglass/runner-link/runner-socket'
import { SOCKET_FOLDER } from '../../rootfs/sandbox-paths.ts'
import { SOCKET_NAME } from './options.ts'

/** Not named by node:fs. */
const O_PATH = 0o10000000

/**
 * SECURITY: the sandbox can replace its socket by anything, such as a link to a socket of the host. The folder is the root of a mount right below
 * `/`, which the sandbox cannot rename. The name in it is opened without following links, and the connection goes to the opened file.
 */
export async function dialLocal(pid: number, isContainers: () => Promise<boolean>): Promise<Duplex> {
  await using folder = await openSocketFolder(pid)
  const file = await open(`/proc/self/fd/${folder.fd}/${SOCKET_NAME}`, O_PATH | constants.O_NOFOLLOW)
  try {
    // SECURITY: the pid may have been reused. If it is still the container's, then so are the files that were opened before this check.
    if (!(await isContainers())) throw new Error('the container is gone')
    if (!(await file.stat()).isSocket()) throw new Error('the runner’s socket was replaced by something that is not a socket')
    return await RunnerSocket.dial(`/proc/self/fd/${file.fd}`)
  } finally {
    await file.close()
  }
}

/** SECURITY: an image may have a link in place of the folder, which would lead to the host. O_PATH reads nothing, so it cannot block. */
export async function openSocketFolder(pid: number): Promise<FileHandle> {
  return await open(`/proc/${pid}/root${SOCKET_FOLDER}`, O_PATH | constants.O_DIRECTORY | constants.O_NOFOLLOW)
}
