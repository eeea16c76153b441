import { rmSync } from 'node:fs'
import type { FileHandle } from 'node:fs/promises'

const SIGNALS = ['SIGINT', 'SIGTERM', 'SIGHUP'] as const

/**
 * Makes the file at `path` with `open` and fills it with `write`. Until that is done it is only half there: it is removed when either fails,
 * or when the person gives up, which may be at any moment after it was made.
 */
export async function wholeOrNone(
  path: string,
  open: () => Promise<FileHandle>,
  write: (file: FileHandle) => Promise<void>,
): Promise<void> {
  let isMade = true // as far as a signal is concerned, from the moment that it may be
  const remove = () => {
    if (isMade) rmSync(path, { force: true })
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
    const file = await open().catch(error => {
      isMade = false // what is there is another's
      throw error
    })
    await write(file).finally(() => file.close())
  } catch (error) {
    remove()
    throw error
  } finally {
    unhook()
  }
}
