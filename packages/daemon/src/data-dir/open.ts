// The data folder: made for its owner alone, locked for one daemon, with the keys that live in it.
import { randomBytes } from 'node:crypto'
import { accessSync, chmodSync, constants, existsSync, mkdirSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { DATA_FILES, SandglassError } from '@sandglass/contract'
import { Ballast, isDiskFull } from './ballast.ts'
import { acquireLock, type Lock } from './lock.ts'
import { readOrCreatePrivate } from './private-file.ts'

export type DataDir = {
  path: string
  lock: Lock
  ballast: Ballast
  /** The bearer key when the configuration has none. */
  apiKey(): string
}

export function openDataDir(path: string): DataDir {
  const ballast = new Ballast(join(path, 'ballast'))
  try {
    return open(path, ballast)
  } catch (error) {
    // A daemon that ended on a full disk starts there again.
    if (!isDiskFull((error as Error).cause) || !ballast.drop()) throw error
    return open(path, ballast)
  }
}

function open(path: string, ballast: Ballast): DataDir {
  let lock: Lock | undefined
  try {
    makeFolder(path)
    accessSync(path, constants.W_OK | constants.X_OK)
    // SECURITY: the sandboxes' disks and keys lie below; no other user may even look them up.
    chmodSync(path, 0o700)
    lock = acquireLock(join(path, 'lock'), path)
    ballast.restore({ isFirst: true })
    return { path, lock, ballast, apiKey: () => readApiKey(join(path, DATA_FILES.apiKey)) }
  } catch (error) {
    lock?.release()
    if (error instanceof SandglassError) throw error
    throw new SandglassError('DATA_DIR_UNWRITABLE', { path, why: (error as Error).message }, { cause: error })
  }
}

/** Node's own recursive mkdir never returns where the kernel answers ENOENT below a folder that is there, as in /proc. */
function makeFolder(path: string): void {
  if (existsSync(path)) return
  if (dirname(path) !== path) makeFolder(dirname(path))
  try {
    mkdirSync(path, { mode: 0o700 })
  } catch (error) {
    // Another daemon may make it at the same moment; the lock decides between the two.
    if ((error as NodeJS.ErrnoException).code !== 'EEXIST') throw error
  }
}

function readApiKey(path: string): string {
  const key = readOrCreatePrivate(path, () => Buffer.from(`sk-sandglass-${randomBytes(32).toString('base64url')}\n`))
    .toString('utf8')
    .trim()
  if (key.length < 16)
    throw new SandglassError('CONFIG_INVALID', { source: path, issue: 'must hold a key of at least 16 characters' })
  return key
}
