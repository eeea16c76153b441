// A file that reserves disk space for the daemon. On a full disk it is removed, so that the store can write the few bytes that ending a session takes.
import { randomBytes } from 'node:crypto'
import { renameSync, rmSync, statfsSync, unlinkSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'

const RESERVED_BYTES = 4 * 1024 * 1024
/** Earlier versions reserved their space under this name in the same folder. */
const EARLIER_NAME = 'ballast'
/** The file is written again only when this much is free, so that it is not written and removed in turns. */
const PLENTY_BYTES = 8 * RESERVED_BYTES

export class ReservedSpace {
  readonly #path: string
  readonly #earlierPath: string
  #isReserved = true

  constructor(path: string) {
    this.#path = path
    this.#earlierPath = join(dirname(path), EARLIER_NAME)
  }

  /** Runs `work`; if the disk is full, frees the reserved space and runs it once more. `work` must leave nothing behind when it fails. */
  async useFor<T>(work: () => Promise<T>): Promise<T> {
    try {
      return await work()
    } catch (error) {
      if (!isDiskFull(error) || !this.free()) throw error
      return await work()
    }
  }

  /** False when nothing was reserved. */
  free(): boolean {
    this.#isReserved = false
    return [this.#path, this.#earlierPath].filter(unlink).length > 0
  }

  /** Writes the file when the daemon starts, and again after it was removed, if enough space is free. */
  reserve({ isFirst = false } = {}): void {
    if (this.#isReserved && !isFirst) return
    rmSync(this.#earlierPath, { force: true })
    const { bavail, bsize } = statfsSync(dirname(this.#path))
    if (bavail * bsize < PLENTY_BYTES) return
    try {
      // Random bytes, because a filesystem that compresses allocates nothing for zeros.
      writeFileSync(`${this.#path}.new`, randomBytes(RESERVED_BYTES), { mode: 0o600 })
      renameSync(`${this.#path}.new`, this.#path)
      this.#isReserved = true
    } catch (error) {
      rmSync(`${this.#path}.new`, { force: true })
      if (!isDiskFull(error)) throw error
    }
  }
}

/** False when there was no such file. */
function unlink(path: string): boolean {
  try {
    unlinkSync(path)
    return true
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return false
    throw error
  }
}

/** SQLite has codes of its own, one of them for an index of the WAL that cannot grow. */
export function isDiskFull(error: unknown): boolean {
  const code = (error as { code?: unknown } | undefined)?.code
  return code === 'ENOSPC' || code === 'EDQUOT' || code === 'SQLITE_FULL' || code === 'SQLITE_IOERR_SHMSIZE'
}
