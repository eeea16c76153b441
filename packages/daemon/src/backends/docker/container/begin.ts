// The beginning of a container: it is started, given its configuration, and waited for until the runner in it listens.
import type { Duplex } from 'node:stream'
import type Docker from 'dockerode'
import type { HostMount } from '../../backend.ts'
import { engineSays } from '../engine/engine.ts'
import { attach, type Shown } from '../machine.ts'
import { verifyMounts } from './mounts.ts'

/** What the runner says once it can be spoken to. */
const LISTENING = 'runner: listening'

/** `keep` gets what the runner said, whatever came of it. */
export async function begin(
  container: Docker.Container,
  { mounts, config }: { mounts: readonly HostMount[]; config: object },
  keep: (said: Buffer) => Promise<void>,
  signal: AbortSignal,
): Promise<Shown> {
  const said: Buffer[] = []
  const listening = Promise.withResolvers<void>()
  listening.promise.catch(() => undefined) // an earlier failure is the one that is told
  let stream: Duplex | undefined
  try {
    stream = await attach(container, text => {
      said.push(text)
      if (Buffer.concat(said).includes(LISTENING)) listening.resolve()
    })
    stream.once('close', () => listening.reject(new Error('the container ended at once')))
    signal.addEventListener('abort', () => listening.reject(signal.reason), { once: true })
    signal.throwIfAborted()
    await container.start()
    if (mounts.length > 0) await verifyMounts((await container.inspect()).State.Pid, mounts)
    // The runner waits for this line before it does anything.
    stream.write(`${JSON.stringify(config)}\n`)
    await listening.promise
    return await container.inspect()
  } catch (error) {
    const last = Buffer.concat(said).toString('utf8').trim().split('\n').at(-1)
    if (!last || signal.aborted) throw error
    throw new Error(`${engineSays(error)}; the runner said: ${last}`, { cause: error })
  } finally {
    stream?.destroy()
    await keep(Buffer.concat(said))
  }
}
