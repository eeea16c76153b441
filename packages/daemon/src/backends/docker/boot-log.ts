// logs/boot.log of each session: the stderr of its first process.
import { appendFile } from 'node:fs/promises'
import { join } from 'node:path'

const MAX_BYTES = 65_536

export class BootLogs {
  readonly #folderOf: (id: string) => string
  readonly #written = new Map<string, number>()

  constructor(folderOf: (id: string) => string) {
    this.#folderOf = folderOf
  }

  /** SECURITY: the sandbox controls the text and its length, so the log is bounded. */
  async add(id: string, text: Buffer): Promise<void> {
    const before = this.#written.get(id) ?? 0
    const kept = text.subarray(0, MAX_BYTES - before)
    if (kept.length === 0) return
    this.#written.set(id, before + kept.length)
    try {
      await appendFile(join(this.#folderOf(id), 'logs', 'boot.log'), kept)
    } catch {
      // The folder of the session may be gone, or the disk full. A log is not worth a failure.
    }
  }

  forget(id: string): void {
    this.#written.delete(id)
  }
}
