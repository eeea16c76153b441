// Free space of the host's disk, and the space promised to sessions: a session's disk is a sparse file, which grows while the sandbox writes.
import { existsSync, readdirSync, statfsSync } from 'node:fs'
import { open, stat } from 'node:fs/promises'
import { join } from 'node:path'
import { isMissing } from '../../lib/missing-file.ts'
import type { DiskSpace } from '../backend.ts'

const BLOCK_BYTES = 512
/** A session has at most one of these. */
const DISKS = ['disk.ext4', 'disk.qcow2', 'disk.raw']
const QCOW2_SIZE_OFFSET = 24

/** How long the measurement of one disk is valid, so that a burst of creates measures each disk once. */
const FRESH_MS = 5000

interface Measured {
  readonly promised: number
  readonly at: number
}

export class PromisedSpace {
  readonly #sessions: string
  readonly #now: () => number
  #cache = new Map<string, Measured>()

  /** `sessions` is the folder with one folder per session. */
  constructor(sessions: string, now: () => number = Date.now) {
    this.#sessions = sessions
    this.#now = now
  }

  /** A create waits for this, so calls that the kernel answers at once are made synchronously. */
  async read(isFresh = false): Promise<DiskSpace> {
    if (isFresh) this.#cache.clear()
    const measured = await Promise.all(readdirSync(this.#sessions).map(async id => [id, await this.#measure(id)] as const))
    // A disk that does not exist yet may exist a moment later, so its absence is not cached.
    this.#cache = new Map(measured.filter(([, { promised }]) => promised > 0))
    // Read after the disks: what a disk takes meanwhile is then counted twice rather than not at all.
    const { blocks, bavail, bsize } = statfsSync(this.#sessions)
    const promised = measured
      .map(([id, { promised }]) => [id, promised] as const)
      .filter(([id, bytes]) => bytes > 0 || this.#hasMachine(id))
    return { total: blocks * bsize, free: bavail * bsize, promised: new Map(promised) }
  }

  /** False for the folder of a failed start, which has only a log: its next start takes a new disk. */
  #hasMachine(id: string): boolean {
    return existsSync(join(this.#sessions, id, 'config.json'))
  }

  async #measure(id: string): Promise<Measured> {
    const last = this.#cache.get(id)
    if (last !== undefined && this.#now() - last.at < FRESH_MS) return last
    const promised = await Promise.all(DISKS.map(name => unallocatedBytes(join(this.#sessions, id, name))))
    return { promised: Math.max(...promised), at: this.#now() }
  }
}

/** Zero for a disk that does not exist. */
async function unallocatedBytes(disk: string): Promise<number> {
  try {
    const { size, blocks } = await stat(disk)
    return Math.max(0, (disk.endsWith('.qcow2') ? await virtualSize(disk) : size) - blocks * BLOCK_BYTES)
  } catch (error) {
    if (isMissing(error)) return 0
    throw error
  }
}

/** The size that a qcow2 file shows to its machine: a 64-bit number in its header. */
async function virtualSize(disk: string): Promise<number> {
  const file = await open(disk)
  try {
    const { buffer, bytesRead } = await file.read({ buffer: Buffer.alloc(8), position: QCOW2_SIZE_OFFSET })
    return bytesRead < 8 ? 0 : Number(buffer.readBigUInt64BE())
  } finally {
    await file.close()
  }
}
