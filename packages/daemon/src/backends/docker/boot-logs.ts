// logs/boot.log of each session: what its first process says on stderr.
import { appendFile } from 'node:fs/promises'
import { join } from 'node:path'

const MAX_BYTES = 65_536

export class BootLogs {
  readonly #folderOf: (id: string) => string
  readonly #written = new Map<string, number>()

  constructor(folderOf: (id: string) => string) {
    this.#folderOf = folderOf
  }

  /** SECURITY: what a first process writes is the sandbox's to choose, and without an end. */
  async add(id: string, text: Buffer): Promise<void> {
    const before = this.#written.get(id) ?? 0
    const kept = text.subarray(0, MAX_BYTES - before)
    if (kept.length === 0) return
    this.#written.set(id, before + kept.length)
    try {
      await appendFile(join(this.#folderOf(id), 'logs', 'boot.log'), kept)
    } catch {
      // The session may be gone before its last words are written, or the disk be full: a log is no reason to fail.
    }
  }

  forget(id: string): void {
    this.#written.delete(id)
  }
}
