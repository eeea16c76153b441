import { rmSync } from 'node:fs'

const SIGNALS = { SIGINT: 130, SIGTERM: 143, SIGHUP: 129 } as const

/** While `write` runs, the file at `path` is only half there: it is removed when that fails, or when the person gives up. */
export async function wholeOrNone<T>(path: string, write: () => Promise<T>): Promise<T> {
  const remove = () => rmSync(path, { force: true })
  const giveUp = (signal: keyof typeof SIGNALS) => {
    remove()
    process.exit(SIGNALS[signal])
  }
  const signals = Object.keys(SIGNALS) as (keyof typeof SIGNALS)[]
  for (const signal of signals) process.on(signal, giveUp)
  try {
    return await write()
  } catch (error) {
    remove()
    throw error
  } finally {
    for (const signal of signals) process.off(signal, giveUp)
  }
}
