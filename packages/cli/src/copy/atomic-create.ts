// Creates a file or folder that appears complete or not at all.
import { rmSync } from 'node:fs'

const SIGNALS = ['SIGINT', 'SIGTERM', 'SIGHUP'] as const

/**
 * Creates a file or folder at `path` with `create` and fills it with `fill`. It is removed again if either fails, or if a signal ends this
 * process before `fill` is done.
 */
export async function createAtomically<Created>(
  path: string,
  create: () => Promise<Created>,
  fill: (created: Created) => Promise<void>,
): Promise<void> {
  let isOurs = true // from the start: a signal may come at the moment of creation
  const remove = () => {
    if (isOurs) rmSync(path, { recursive: true, force: true })
  }
  const unhook = () => {
    for (const signal of SIGNALS) process.off(signal, onSignal)
  }
  const onSignal = (signal: NodeJS.Signals) => {
    remove()
    unhook()
    process.kill(process.pid, signal) // without the handler, so that the exit status is that of the signal
  }
  for (const signal of SIGNALS) process.on(signal, onSignal)
  try {
    const created = await create().catch(error => {
      isOurs = false // whatever exists at the path was there before
      throw error
    })
    await fill(created)
  } catch (error) {
    remove()
    throw error
  } finally {
    unhook()
  }
}
