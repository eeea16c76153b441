// How much of the host's disk is free, and how much of it the sessions' disks may still take: a disk is a file with holes, which the
// sandbox fills as it writes.
import { readdir, stat, statfs } from 'node:fs/promises'
import { join } from 'node:path'
import type { Room } from '../backend.ts'
import { isMissing } from './record.ts'

const BLOCK_BYTES = 512

export async function diskRoom(sessions: string): Promise<Room> {
  const promised = new Map<string, number>()
  await Promise.all(
    (await readdir(sessions)).map(async id => promised.set(id, await unallocated(join(sessions, id, 'disk.ext4')))),
  )
  // After the disks: what one takes meanwhile is then counted twice, and never not at all.
  const { bavail, bsize } = await statfs(sessions)
  return { free: bavail * bsize, promised }
}

/** Zero for a session whose files are not in a disk of their own. */
async function unallocated(disk: string): Promise<number> {
  try {
    const { size, blocks } = await stat(disk)
    return Math.max(0, size - blocks * BLOCK_BYTES)
  } catch (error) {
    if (isMissing(error)) return 0
    throw error
  }
}
