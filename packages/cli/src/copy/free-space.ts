// Refuses a file that would not fit on this machine.
import { statfs } from 'node:fs/promises'
import { SandglassError } from '@sandglass/sdk'

/** Smaller files are not checked: the call costs more than it could save. */
const CHECK_FROM_BYTES = 1024 * 1024

/**
 * Throws TARGET_FULL if a file of `bytes` does not fit on the disk of `folder`. SECURITY: a sparse file of terabytes costs a sandbox nothing
 * and would fill this machine.
 */
export async function requireFreeSpace(folder: string, path: string, bytes: number): Promise<void> {
  if (bytes < CHECK_FROM_BYTES) return
  const { bavail, bsize } = await statfs(folder)
  const free = bavail * bsize
  if (bytes > free) throw new SandglassError('TARGET_FULL', { path, bytes, free })
}

const STEP_BYTES = 16 * 1024 * 1024

/** Passes the bytes on. Beyond `announced` (the file grew, or is behind a link) it throws TARGET_FULL before the disk is full. */
export async function* withinFreeSpace(
  source: AsyncIterable<Uint8Array>,
  folder: string,
  path: string,
  announced: number,
): AsyncGenerator<Uint8Array, void, undefined> {
  let bytes = 0
  let granted = announced
  for await (const piece of source) {
    bytes += piece.length
    if (bytes > granted) {
      const { bavail, bsize } = await statfs(folder)
      if (bavail * bsize < 2 * STEP_BYTES) throw new SandglassError('TARGET_FULL', { path, bytes, free: bavail * bsize })
      granted = bytes + STEP_BYTES
    }
    yield piece
  }
}
