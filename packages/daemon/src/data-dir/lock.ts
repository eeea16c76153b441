// One daemon per data folder. The lock is SQLite's exclusive lock on a small file: the kernel holds it for the process and
// lets go when the process dies, however it dies, so there is no stale lock to judge and no race to lose.
import { closeSync, constants, fstatSync, openSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { SandglassError } from '@sandglass/contract'
import Database from 'better-sqlite3'

export type Lock = { release(): void }

/** Throws DATA_DIR_LOCKED when another process has it. `owner` is what the other daemon is told about: the folder or socket. */
export function acquireLock(path: string, owner: string): Lock {
  makeOwn(path)
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

/** SECURITY: the folder may be one that others write to. What they planted under this name is neither followed nor used. */
function makeOwn(path: string): void {
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

/** SECURITY: always a fresh file, since writing to one that is there could be writing through a link. */
function writePid(path: string): void {
  rmSync(path, { force: true })
  writeFileSync(path, String(process.pid), { mode: 0o600, flag: 'wx' })
}

/** For the message only: the lock itself is the truth. */
function holderOf(path: string): string {
  try {
    const text = readFileSync(`${path}.pid`, { encoding: 'utf8', flag: constants.O_RDONLY | constants.O_NOFOLLOW })
    return /^\d{1,10}$/.test(text) ? text : 'unknown'
  } catch (error) {
    if (['ENOENT', 'ELOOP'].includes((error as NodeJS.ErrnoException).code ?? '')) return 'unknown'
    throw error
  }
}
