// Which user each machine's QEMU runs as.
import { SandglassError } from '@sandglass/contract/tables'
import { IDS_PER_MACHINE, type JailIds } from './jail.ts'

export class MachineIds {
  /** Of machines whose record may not be written yet. */
  readonly #claimed = new Map<string, number>()

  /** One that no other machine has: neither among `taken` nor claimed meanwhile. The first is that of machines for snapshots. */
  claim(id: string, ids: JailIds, taken: Iterable<number | null>): number {
    const used = new Set([...taken, ...this.#claimed.values()])
    for (let i = IDS_PER_MACHINE; i + IDS_PER_MACHINE <= ids.count; i += IDS_PER_MACHINE) {
      const number = ids.first + i
      if (used.has(number)) continue
      this.#claimed.set(id, number)
      return number
    }
    throw new SandglassError('HOST_FULL', { what: `all ${ids.count} user ids for virtual machines are taken` })
  }

  release(id: string): void {
    this.#claimed.delete(id)
  }
}
