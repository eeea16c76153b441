import { rmSync } from 'node:fs'

const SIGNALS = ['SIGINT', 'SIGTERM', 'SIGHUP'] as const

/** While `write` runs, the file at `path` is only half there: it is removed when that fails, or when the person gives up. */
export async function wholeOrNone<T>(path: string, write: () => Promise<T>): Promise<T> {
  const remove = () => rmSync(path, { force: true })
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
    return await write()
  } catch (error) {
    remove()
    throw error
  } finally {
    unhook()
  }
}
