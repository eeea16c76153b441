// The part of the host's disk that is neither kept free nor promised to sessions. SECURITY: the backend's own large files take of this alone: a
// sandbox within its limit that finds no byte on the host loses what it wrote.
import { SandglassError } from '@sandglass/contract/tables'
import { type DiskPolicy, reservedBytes } from '../../../data-dir/disk-policy.ts'
import type { Room } from '../../backend.ts'
import { DiskRoom } from '../../disk/promised-space.ts'

const LOOK_MS = 25

export class SpareRoom {
  readonly #sessions: string
  readonly #policy: DiskPolicy
  readonly #room: DiskRoom

  constructor(sessions: string, policy: DiskPolicy) {
    this.#sessions = sessions
    this.#policy = policy
    this.#room = new DiskRoom(sessions)
  }

  /** Does work that writes a file, which is aborted when it would take more. What was written is then for the caller to remove. */
  async take(what: string, work: (full: AbortSignal) => Promise<void>, bytes = 0): Promise<void> {
    const full = new AbortController()
    await this.require(what, bytes)
    const looks = setInterval(() => this.require(what).catch(error => full.abort(error)), LOOK_MS)
    try {
      await work(full.signal)
      await this.require(what)
    } catch (error) {
      full.signal.throwIfAborted()
      throw error
    } finally {
      clearInterval(looks)
    }
  }

  /** Throws HOST_FULL without room for so many bytes more. */
  async require(what: string, bytes = 0): Promise<void> {
    if (this.#spare(await this.#room.read()) >= bytes) return
    // What a session has written counts twice until its disk is looked at again.
    if (this.#spare(await new DiskRoom(this.#sessions).read()) >= bytes) return
    throw new SandglassError('HOST_FULL', {
      what: `${what} would take disk space that is kept free, or that sessions may still need`,
    })
  }

  #spare({ free, total, promised }: Room): number {
    return free - reservedBytes(this.#policy, total, promised.values())
  }
}
