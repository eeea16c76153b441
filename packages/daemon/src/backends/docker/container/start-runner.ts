// Starts a container, passes the configuration to the runner in it, and waits until the runner listens.
import { constants } from 'node:fs'
import { lstat, open, readlink } from 'node:fs/promises'
import type { Duplex } from 'node:stream'
import type Docker from 'dockerode'
import type { HostMount } from '../../backend.ts'
import { engineMessage } from '../engine/engine.ts'
import { attach } from './attached-stream.ts'
import type { ContainerInfo } from './containers.ts'

/** The runner writes this to stderr when it accepts connections. */
const LISTENING = 'runner: listening'
/** Not named by node:fs. */
const O_PATH = 0o10000000

/** `onStderr` receives the stderr of the runner once, whether the start succeeds or fails. */
export async function startRunner(
  container: Docker.Container,
  { mounts, config }: { mounts: readonly HostMount[]; config: object },
  onStderr: (text: Buffer) => Promise<void>,
  signal: AbortSignal,
): Promise<ContainerInfo> {
  const stderr: Buffer[] = []
  const listening = Promise.withResolvers<void>()
  listening.promise.catch(() => undefined) // an earlier failure is the one that is thrown
  let stream: Duplex | undefined
  try {
    stream = await attach(container, text => {
      stderr.push(text)
      if (Buffer.concat(stderr).includes(LISTENING)) listening.resolve()
    })
    stream.once('close', () => listening.reject(new Error('the container ended at once')))
    signal.addEventListener('abort', () => listening.reject(signal.reason), { once: true })
    signal.throwIfAborted()
    await container.start()
    if (mounts.length > 0) await verifyMounts((await container.inspect()).State.Pid, mounts)
    // The runner reads this line before it does anything else.
    stream.write(`${JSON.stringify(config)}\n`)
    await listening.promise
    return await container.inspect()
  } catch (error) {
    const last = Buffer.concat(stderr).toString('utf8').trim().split('\n').at(-1)
    if (!last || signal.aborted) throw error
    throw new Error(`${engineMessage(error)}; the runner said: ${last}`, { cause: error })
  } finally {
    stream?.destroy()
    await onStderr(Buffer.concat(stderr))
  }
}

/**
 * The engine mounts folders of the host by path. SECURITY: between the check of a path and its mount, a user who may write there can replace the
 * folder by a link. The folder that is still at its own real path is the allowed one; a container with another one is not used.
 */
async function verifyMounts(pid: number, mounts: readonly HostMount[]): Promise<void> {
  for (const { source, target } of mounts) {
    const allowed = await open(source, O_PATH | constants.O_DIRECTORY | constants.O_NOFOLLOW)
    try {
      const [expected, mounted] = [await allowed.stat(), await statInside(pid, target)]
      const isAtItsPath = (await readlink(`/proc/self/fd/${allowed.fd}`)) === source
      if (!isAtItsPath || expected.dev !== mounted.dev || expected.ino !== mounted.ino)
        throw new Error(`what is at ${target} is not ${source}`)
    } finally {
      await allowed.close()
    }
  }
}

/** SECURITY: a link on the path would be resolved in the daemon's own root, and could lead to the allowed folder that the container does not have. */
async function statInside(pid: number, target: string) {
  let path = `/proc/${pid}/root`
  let info = await lstat(`${path}/`)
  for (const name of target.split('/').filter(Boolean)) {
    path += `/${name}`
    info = await lstat(path)
    if (!info.isDirectory()) throw new Error(`${target} leads over a link or a file`)
  }
  return info
}
