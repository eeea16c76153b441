// Files with keys, which only their owner may read.
import { closeSync, fstatSync, fsyncSync, openSync, readFileSync, renameSync, writeSync } from 'node:fs'
import { dirname } from 'node:path'
import { SandglassError } from '@sandglass/contract'

/** The content of the file. If there is none, stores what `make` returns: fsync, then rename, so that a crash leaves no half-written key. */
export function readOrCreatePrivate(path: string, make: () => Buffer): Buffer {
  const found = readPrivate(path)
  if (found !== null) return found
  const content = make()
  const fresh = `${path}.new`
  const fd = openSync(fresh, 'w', 0o600)
  try {
    writeSync(fd, content)
    fsyncSync(fd)
  } finally {
    closeSync(fd)
  }
  renameSync(fresh, path)
  syncFolder(dirname(path))
  return content
}

/** Makes the rename durable: data that is encrypted with the key may be stored next. */
function syncFolder(path: string): void {
  const fd = openSync(path, 'r')
  try {
    fsyncSync(fd)
  } finally {
    closeSync(fd)
  }
}

/** Null when there is no such file. */
export function readPrivate(path: string): Buffer | null {
  let fd: number
  try {
    fd = openSync(path, 'r')
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return null
    const issue = `cannot be read: ${(error as Error).message}`
    throw new SandglassError('CONFIG_INVALID', { source: path, issue }, { cause: error })
  }
  try {
    const { mode } = fstatSync(fd)
    // SECURITY: a key that others can read counts as compromised.
    if ((mode & 0o077) !== 0) throw new SandglassError('CONFIG_INSECURE', { path, mode: (mode & 0o777).toString(8) })
    return readFileSync(fd)
  } finally {
    closeSync(fd)
  }
}
