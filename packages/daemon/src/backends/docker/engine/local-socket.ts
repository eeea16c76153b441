// The runner's socket, reached through the container's own root filesystem as the kernel shows it: nothing of the host is mounted into the
// container for it. Only root on the engine's own machine can go this way.
import { constants } from 'node:fs'
import { type FileHandle, open } from 'node:fs/promises'
import type { Duplex } from 'node:stream'
import { RunnerSocket } from '../../../runner-link/runner-socket.ts'
import { SOCKET_FOLDER } from '../../rootfs/sandbox-paths.ts'
import { SOCKET_NAME } from '../container/container.ts'

/** Not named by node:fs. */
const O_PATH = 0o10000000

/**
 * SECURITY: the sandbox can put anything in place of its socket, a link to a socket of the host for one. The folder is the root of a mount
 * right below `/`, which the sandbox cannot rename; of the name in it no link is followed, and what is connected to is what was looked at.
 */
export async function dialLocal(pid: number, isContainers: () => Promise<boolean>): Promise<Duplex> {
  await using folder = await openSocketFolder(pid)
  const file = await open(`/proc/self/fd/${folder.fd}/${SOCKET_NAME}`, O_PATH | constants.O_NOFOLLOW)
  try {
    // SECURITY: the number may be another container's by now. What was opened before this was of the process that is looked at.
    if (!(await isContainers())) throw new Error('the container is gone')
    if (!(await file.stat()).isSocket()) throw new Error('what is in place of the runner’s socket is no socket')
    return await RunnerSocket.dial(`/proc/self/fd/${file.fd}`)
  } finally {
    await file.close()
  }
}

/** SECURITY: an image may have a link in place of the folder, which would lead to the host's. Nothing is read, so that nothing can block. */
export async function openSocketFolder(pid: number): Promise<FileHandle> {
  return await open(`/proc/${pid}/root${SOCKET_FOLDER}`, O_PATH | constants.O_DIRECTORY | constants.O_NOFOLLOW)
}
