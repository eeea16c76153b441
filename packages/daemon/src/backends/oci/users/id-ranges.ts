// User and group ids. Every session has its own range, so that root in one sandbox has no rights on the host or in another sandbox.
import { createHash } from 'node:crypto'
import { mappedIds } from '../../machine/mapped-ids.ts'

/** One line of an id map: `size` ids that begin at `inside` in the sandbox and at `outside` on the host. */
export interface IdRange {
  readonly inside: number
  readonly outside: number
  readonly size: number
}

/** The ids that the daemon can give to sessions, divided into slots. */
export interface IdPool {
  readonly slots: number
  ranges(slot: number): readonly IdRange[]
}

const FIRST = 0x1000_0000
const BLOCK = 65_536
const SMALL_BLOCK = 1024
const NOBODY = 65_534

/** The pool of a root daemon: blocks of 65,536 ids from 2^28 up, above the ranges that login.defs and systemd assign. */
export function fullPool(): IdPool {
  return {
    slots: Math.floor((0xffff_ffff - FIRST) / BLOCK),
    ranges: slot => [{ inside: 0, outside: FIRST + slot * BLOCK, size: BLOCK }],
  }
}

/**
 * The pool of an ordinary user: blocks of 1,024 of the sub-ids that are mapped into the daemon's user namespace. A sandbox has the ids 0 to
 * 1022, and 65534, which programs expect to be nobody.
 */
export function mappedPool(uidMap: string, gidMap: string): IdPool {
  const { first, end } = mappedIds(uidMap, gidMap)
  return {
    slots: Math.floor((end - first) / SMALL_BLOCK),
    ranges: slot => {
      const base = first + slot * SMALL_BLOCK
      return [
        { inside: 0, outside: base, size: SMALL_BLOCK - 1 },
        { inside: NOBODY, outside: base + SMALL_BLOCK - 1, size: 1 },
      ]
    },
  }
}

/** Assigns each session a slot that no other session of this data folder has. */
export class IdSlots {
  readonly #pool: IdPool
  readonly #taken = new Set<number>()
  readonly #start: number
  #next: number | null = null

  /** The first slot depends on the data folder, so that two daemons on one host rarely use the same ids. */
  constructor(pool: IdPool, dataDir: string) {
    this.#pool = pool
    this.#start = pool.slots === 0 ? 0 : createHash('sha256').update(dataDir).digest().readUInt32BE() % pool.slots
  }

  claim(slot: number): void {
    this.#taken.add(slot)
  }

  /** The slot that take() will return, unless it is claimed before. */
  next(): number | null {
    if (this.#next === null || this.#taken.has(this.#next)) this.#next = this.#free()
    return this.#next
  }

  /** A free slot, or null when every one is taken. */
  take(): number | null {
    const slot = this.next()
    if (slot !== null) this.#taken.add(slot)
    return slot
  }

  #free(): number | null {
    for (let i = 0; i < this.#pool.slots; i++) {
      const slot = (this.#start + i) % this.#pool.slots
      if (!this.#taken.has(slot)) return slot
    }
    return null
  }

  release(slot: number): void {
    this.#taken.delete(slot)
  }
}

/** The host's id for an id inside the sandbox. */
export function outsideId(ranges: readonly IdRange[], id: number): number {
  for (const range of ranges) if (id >= range.inside && id < range.inside + range.size) return range.outside + id - range.inside
  throw new RangeError(`id ${id} is not mapped`)
}
