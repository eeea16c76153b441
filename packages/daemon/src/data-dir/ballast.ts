// A file that is there to be removed: on a full disk it gives the daemon the few bytes that ending a session takes.
import { randomBytes } from 'node:crypto'
import { renameSync, rmSync, statfsSync, unlinkSync, writeFileSync } from 'node:fs'
import { dirname } from 'node:path'

const BALLAST_BYTES = 4 * 1024 * 1024
/** Taken again only when there is plenty, so that it is not made and dropped in turns. */
const PLENTY_BYTES = 8 * BALLAST_BYTES

export class Ballast {
  readonly #path: string
  #isThere = true

  constructor(path: string) {
    this.#path = path
  }

  /** Does it, and once more without the ballast when the disk is full. `work` must leave nothing behind when it fails. */
  async whenFull<T>(work: () => Promise<T>): Promise<T> {
    try {
      return await work()
    } catch (error) {
      if (!isDiskFull(error) || !this.drop()) throw error
      return await work()
    }
  }

  /** False when there was none to drop. */
  drop(): boolean {
    this.#isThere = false
    try {
      unlinkSync(this.#path)
      return true
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code === 'ENOENT') return false
      throw error
    }
  }

  /** Makes the file, at the start of a daemon and after a drop, if there is room for it. */
  restore({ isFirst = false } = {}): void {
    if (this.#isThere && !isFirst) return
    const { bavail, bsize } = statfsSync(dirname(this.#path))
    if (bavail * bsize < PLENTY_BYTES) return
    try {
      // Random, for a filesystem that compresses would give zeros no room.
      writeFileSync(`${this.#path}.new`, randomBytes(BALLAST_BYTES), { mode: 0o600 })
      renameSync(`${this.#path}.new`, this.#path)
      this.#isThere = true
    } catch (error) {
      rmSync(`${this.#path}.new`, { force: true })
      if (!isDiskFull(error)) throw error
    }
  }
}

/** SQLite says it in its own words: the WAL's index cannot grow either. */
export function isDiskFull(error: unknown): boolean {
  const code = (error as { code?: unknown } | undefined)?.code
  return code === 'ENOSPC' || code === 'EDQUOT' || code === 'SQLITE_FULL' || code === 'SQLITE_IOERR_SHMSIZE'
}
