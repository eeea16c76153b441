// How much of the host's disk is free, and how much of it the sessions' disks may still take: a disk is a file with holes, which the
// sandbox fills as it writes.
import { existsSync, readdirSync, statfsSync } from 'node:fs'
import { open, stat } from 'node:fs/promises'
import { join } from 'node:path'
import { isMissing } from '../../lib/missing-file.ts'
import type { Room } from '../backend.ts'

const BLOCK_BYTES = 512
/** A session's files are in one of these, or in none. */
const DISKS = ['disk.ext4', 'disk.qcow2', 'disk.raw']
const QCOW2_SIZE_OFFSET = 24

/** How long a look at one disk counts, so that a burst of creates looks at each disk once and not once for each other. */
const FRESH_MS = 5000

export class DiskRoom {
  readonly #sessions: string
  readonly #now: () => number
  #looks = new Map<string, { promised: number; at: number }>()

  constructor(sessions: string, now: () => number = Date.now) {
    this.#sessions = sessions
    this.#now = now
  }

  /** Whoever creates a session waits for this: calls that the kernel answers at once are not handed to another thread. */
  async read(isFresh = false): Promise<Room> {
    if (isFresh) this.#looks.clear()
    const looks = await Promise.all(readdirSync(this.#sessions).map(async id => [id, await this.#look(id)] as const))
    // A disk that is not there yet may be there the next moment.
    this.#looks = new Map(looks.filter(([, look]) => look.promised > 0))
    // After the disks: what one takes meanwhile is then counted twice, and never not at all.
    const { blocks, bavail, bsize } = statfsSync(this.#sessions)
    const promised = looks
      .map(([id, look]) => [id, look.promised] as const)
      .filter(([id, bytes]) => bytes > 0 || this.#hasMachine(id))
    return { total: blocks * bsize, free: bavail * bsize, promised: new Map(promised) }
  }

  /** False for what one that did not start has left to read: its next start takes a disk afresh. */
  #hasMachine(id: string): boolean {
    return existsSync(join(this.#sessions, id, 'config.json'))
  }

  async #look(id: string): Promise<{ promised: number; at: number }> {
    const last = this.#looks.get(id)
    if (last !== undefined && this.#now() - last.at < FRESH_MS) return last
    const promised = await Promise.all(DISKS.map(name => unallocated(join(this.#sessions, id, name))))
    return { promised: Math.max(...promised), at: this.#now() }
  }
}

/** Zero for a disk that is not there. */
async function unallocated(disk: string): Promise<number> {
  try {
    const { size, blocks } = await stat(disk)
    return Math.max(0, (disk.endsWith('.qcow2') ? await shownSize(disk) : size) - blocks * BLOCK_BYTES)
  } catch (error) {
    if (isMissing(error)) return 0
    throw error
  }
}

/** The size that a qcow2 file shows to its machine: a number of 64 bits near its beginning. */
async function shownSize(disk: string): Promise<number> {
  const file = await open(disk)
  try {
    const { buffer, bytesRead } = await file.read({ buffer: Buffer.alloc(8), position: QCOW2_SIZE_OFFSET })
    return bytesRead < 8 ? 0 : Number(buffer.readBigUInt64BE())
  } finally {
    await file.close()
  }
}
