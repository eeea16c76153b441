// One daemon per data folder. The lock is SQLite's exclusive lock on a small file: the kernel releases it when the process dies, however
// it dies, so there are no stale locks and no races about them.
import { closeSync, constants, fstatSync, openSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { SandglassError } from '@sandglass/contract'
import Database from 'better-sqlite3'

export type Lock = { release(): void }

/** Throws DATA_DIR_LOCKED when another process has the lock. `owner` is the locked folder or socket, for the message. */
export function acquireLock(path: string, owner: string): Lock {
  requireOwnFile(path)
  const db = new Database(path, { timeout: 0 })
  try {
    db.pragma('locking_mode = EXCLUSIVE')
    db.exec('begin exclusive')
    writePid(`${path}.pid`)
    return { release: () => void db.close() }
  } catch (error) {
    db.close()
    if ((error as { code?: string }).code !== 'SQLITE_BUSY') throw error
    throw new SandglassError('DATA_DIR_LOCKED', { path: owner, pid: holderOf(path) }, { cause: error })
  }
}

/** SECURITY: others may be able to write to the folder. A link or file that they put under this name is neither followed nor used. */
function requireOwnFile(path: string): void {
  let fd: number
  try {
    fd = openSync(path, constants.O_RDWR | constants.O_CREAT | constants.O_NOFOLLOW, 0o600)
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ELOOP') throw notOurs(path)
    throw error
  }
  try {
    const found = fstatSync(fd)
    if (!found.isFile() || found.nlink !== 1 || found.uid !== process.geteuid?.()) throw notOurs(path)
  } finally {
    closeSync(fd)
  }
}

const notOurs = (path: string) =>
  new SandglassError('CONFIG_INVALID', { source: path, issue: 'is a link or belongs to somebody else: look at it and remove it' })

/** SECURITY: always a new file, because an existing one could be a link to another. */
function writePid(path: string): void {
  rmSync(path, { force: true })
  writeFileSync(path, String(process.pid), { mode: 0o600, flag: 'wx' })
}

/** For the message only; the lock decides. */
function holderOf(path: string): string {
  try {
    const text = readFileSync(`${path}.pid`, { encoding: 'utf8', flag: constants.O_RDONLY | constants.O_NOFOLLOW })
    return /^\d{1,10}$/.test(text) ? text : 'unknown'
  } catch (error) {
    if (['ENOENT', 'ELOOP'].includes((error as NodeJS.ErrnoException).code ?? '')) return 'unknown'
    throw error
  }
}
