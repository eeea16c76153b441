// One daemon per data folder. The lock is SQLite's exclusive lock on a small file: the kernel holds it for the process and
// lets go when the process dies, however it dies, so there is no stale lock to judge and no race to lose.
import { readFileSync, writeFileSync } from 'node:fs'
import { SandglassError } from '@sandglass/contract'
import Database from 'better-sqlite3'

export type Lock = { release(): void }

/** Throws DATA_DIR_LOCKED when another process has it. `owner` is what the other daemon is told about: the folder or socket. */
export function acquireLock(path: string, owner: string): Lock {
  const db = new Database(path, { timeout: 0 })
  try {
    db.pragma('locking_mode = EXCLUSIVE')
    db.exec('begin exclusive')
  } catch (error) {
    db.close()
    if ((error as { code?: string }).code !== 'SQLITE_BUSY') throw error
    throw new SandglassError('DATA_DIR_LOCKED', { path: owner, pid: holderOf(path) }, { cause: error })
  }
  writeFileSync(`${path}.pid`, String(process.pid), { mode: 0o600 })
  return { release: () => void db.close() }
}

/** For the message only: the lock itself is the truth. */
function holderOf(path: string): string {
  try {
    return readFileSync(`${path}.pid`, 'utf8')
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return 'unknown'
    throw error
  }
}
