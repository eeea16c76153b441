// Spare disk space: neither kept free nor promised to sessions. SECURITY: the backend's own large files use only this space, because a sandbox
// within its limit loses data when the host's disk is full.
import { SandglassError } from '@sandglass/contract/tables'
import { type DiskPolicy, reservedBytes } from '../../../data-dir/disk-policy.ts'
import type { DiskSpace } from '../../backend.ts'
import { PromisedSpace } from '../../disk/promised-space.ts'

const CHECK_MS = 25

export class SpareSpace {
  readonly #sessions: string
  readonly #policy: DiskPolicy
  readonly #space: PromisedSpace

  constructor(sessions: string, policy: DiskPolicy) {
    this.#sessions = sessions
    this.#policy = policy
    this.#space = new PromisedSpace(sessions)
  }

  /** Runs work that writes a file, and aborts it when spare space runs out. The caller then removes the file. */
  async write(what: string, work: (full: AbortSignal) => Promise<void>, bytes = 0): Promise<void> {
    const full = new AbortController()
    await this.require(what, bytes)
    const checks = setInterval(() => this.require(what).catch(error => full.abort(error)), CHECK_MS)
    try {
      await work(full.signal)
      await this.require(what)
    } catch (error) {
      full.signal.throwIfAborted()
      throw error
    } finally {
      clearInterval(checks)
    }
  }

  /** Throws HOST_FULL if fewer bytes are spare. */
  async require(what: string, bytes = 0): Promise<void> {
    if (this.#spare(await this.#space.read()) >= bytes) return
    // The cached reading may count recent writes of sessions twice, so it is read again.
    if (this.#spare(await new PromisedSpace(this.#sessions).read()) >= bytes) return
    throw new SandglassError('HOST_FULL', {
      what: `${what} would take disk space that is kept free or promised to sessions`,
    })
  }

  #spare({ free, total, promised }: DiskSpace): number {
    return free - reservedBytes(this.#policy, total, promised.values())
  }
}
