// The data folder: accessible to its owner alone, locked by one daemon, with the keys that are stored in it.
import { randomBytes } from 'node:crypto'
import { accessSync, chmodSync, constants, existsSync, mkdirSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { DATA_FILES, SandglassError } from '@sandglass/contract'
import { acquireLock, type Lock } from './lock.ts'
import { readOrCreatePrivate } from './private-file.ts'
import { isDiskFull, ReservedSpace } from './reserved-space.ts'

export type DataDir = {
  path: string
  lock: Lock
  reservedSpace: ReservedSpace
  /** The bearer key when the configuration has none. */
  apiKey(): string
}

export function openDataDir(path: string): DataDir {
  const reservedSpace = new ReservedSpace(join(path, 'reserved-space'))
  try {
    return open(path, reservedSpace)
  } catch (error) {
    // A daemon also has to start on the full disk that ended the one before.
    if (!isDiskFull((error as Error).cause) || !reservedSpace.free()) throw error
    return open(path, reservedSpace)
  }
}

function open(path: string, reservedSpace: ReservedSpace): DataDir {
  let lock: Lock | undefined
  try {
    makeFolder(path)
    accessSync(path, constants.W_OK | constants.X_OK)
    // SECURITY: the sandboxes' disks and keys are below; no other user may even look them up.
    chmodSync(path, 0o700)
    lock = acquireLock(join(path, 'lock'), path)
    reservedSpace.reserve({ isFirst: true })
    return { path, lock, reservedSpace, apiKey: () => readApiKey(join(path, DATA_FILES.apiKey)) }
  } catch (error) {
    lock?.release()
    if (error instanceof SandglassError) throw error
    throw new SandglassError('DATA_DIR_UNWRITABLE', { path, why: (error as Error).message }, { cause: error })
  }
}

/** Node's own recursive mkdir never returns where the kernel answers ENOENT below an existing folder, as in /proc. */
function makeFolder(path: string): void {
  if (existsSync(path)) return
  if (dirname(path) !== path) makeFolder(dirname(path))
  try {
    mkdirSync(path, { mode: 0o700 })
  } catch (error) {
    // Another daemon may create it at the same moment; the lock decides between the two.
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
