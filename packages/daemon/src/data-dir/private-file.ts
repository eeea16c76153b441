// Keys in files that nobody else may read.
import { closeSync, fstatSync, fsyncSync, openSync, readFileSync, renameSync, writeSync } from 'node:fs'
import { dirname } from 'node:path'
import { SandglassError } from '@sandglass/contract'

/** What the file holds, or what `make` gives, stored first. A crash while storing leaves no half-written key: the name appears with its content. */
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

/** What is stored next may depend on the name being there after a power cut. */
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
    // SECURITY: a key that others could read is no key any more.
    if ((mode & 0o077) !== 0) throw new SandglassError('CONFIG_INSECURE', { path, mode: (mode & 0o777).toString(8) })
    return readFileSync(fd)
  } finally {
    closeSync(fd)
  }
}
