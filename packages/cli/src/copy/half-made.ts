import { rmSync } from 'node:fs'

const SIGNALS = ['SIGINT', 'SIGTERM', 'SIGHUP'] as const

/**
 * Makes a file or folder at `path` with `make` and fills it with `fill`. Until that is done it is only half there: it is removed when either
 * fails, or when the person gives up, which may be at any moment after it was made.
 */
export async function wholeOrNone<Made>(
  path: string,
  make: () => Promise<Made>,
  fill: (made: Made) => Promise<void>,
): Promise<void> {
  let isMade = true // as far as a signal is concerned, from the moment that it may be
  const remove = () => {
    if (isMade) rmSync(path, { recursive: true, force: true })
  }
  const unhook = () => {
    for (const signal of SIGNALS) process.off(signal, giveUp)
  }
  const giveUp = (signal: NodeJS.Signals) => {
    remove()
    unhook()
    process.kill(process.pid, signal) // to end as one that never caught it
  }
  for (const signal of SIGNALS) process.on(signal, giveUp)
  try {
    const made = await make().catch(error => {
      isMade = false // what is there is another's
      throw error
    })
    await fill(made)
  } catch (error) {
    remove()
    throw error
  } finally {
    unhook()
  }
}
