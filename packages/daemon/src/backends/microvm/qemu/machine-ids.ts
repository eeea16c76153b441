// Allocates the user id that each machine's QEMU runs as.
import { createHash } from 'node:crypto'
import { SandglassError } from '@sandglass/contract/tables'
import { IDS_PER_MACHINE, type JailIds } from './jail.ts'
import { usersWithProcesses } from './processes.ts'

export class MachineIds {
  readonly #dataDir: string
  /** Ids of machines whose record may not be written yet. */
  readonly #claimed = new Map<string, number>()

  constructor(dataDir: string) {
    this.#dataDir = dataDir
  }

  /**
   * Returns an id that no other machine has. The first id of the range is reserved for trial machines.
   * SECURITY: daemons on one host share the range and see each other's machines only by their processes. Each daemon starts its search at its
   * own position, so that two daemons hardly ever pick the same id at the same moment.
   */
  claim(id: string, ids: JailIds, taken: Iterable<number | null>): number {
    const used = new Set([...taken, ...this.#claimed.values()])
    const users = usersWithProcesses()
    const slots = Math.floor(ids.count / IDS_PER_MACHINE) - 1
    const begin = createHash('sha256').update(this.#dataDir).digest().readUInt32BE() % slots
    for (let i = 0; i < slots; i++) {
      const number = ids.first + IDS_PER_MACHINE * (1 + ((begin + i) % slots))
      if (used.has(number) || users.has(number) || users.has(number + 1)) continue
      this.#claimed.set(id, number)
      return number
    }
    throw new SandglassError('HOST_FULL', { what: `all ${ids.count} user ids for virtual machines are taken` })
  }

  release(id: string): void {
    this.#claimed.delete(id)
  }
}
