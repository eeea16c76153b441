import { statfs } from 'node:fs/promises'
import { SandglassError } from '@sandglass/sdk'

/** Shorter files are not asked about: each call costs more than it could save. */
const ASK_FROM_BYTES = 1024 * 1024

/**
 * Refuses a file that the disk under `folder` cannot hold, before its first byte. SECURITY: a sparse file of terabytes costs a sandbox
 * nothing, and would fill this machine.
 */
export async function requireRoom(folder: string, path: string, bytes: number): Promise<void> {
  if (bytes < ASK_FROM_BYTES) return
  const { bavail, bsize } = await statfs(folder)
  const free = bavail * bsize
  if (bytes > free) throw new SandglassError('TARGET_FULL', { path, bytes, free })
}

const STEP_BYTES = 16 * 1024 * 1024

/** The same bytes. Those beyond `announced`, of a file that grew or that a link leads to, come only while there is room for more. */
export async function* withinRoom(
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
