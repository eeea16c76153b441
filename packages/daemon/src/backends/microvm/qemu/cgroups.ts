// The cgroups of one machine, with QEMU, its supervisor and virtiofsd in them. The guest kernel enforces the session's limits; the cgroups enforce
// them even if the guest kernel is compromised, and count the cpu time of the whole machine.
import { randomBytes } from 'node:crypto'
import { readFileSync, rmdirSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { setTimeout as delay } from 'node:timers/promises'
import { isMissing } from '../../../lib/missing-file.ts'
import { machineCgroup } from '../../cgroups/cgroup.ts'
import { lostGroups, usableCgroups } from '../../cgroups/delegation.ts'
import { type CgroupLayout, type Group, groupsOf, leftGroups, parentName } from '../../cgroups/layout.ts'
import { readStats } from '../../cgroups/usage.ts'
import { guestMemoryMb } from './command-line.ts'
import { kill } from './processes.ts'

/** Memory of QEMU in addition to the guest's: the emulator, its translation cache and disk buffers. */
const QEMU_MB = 384
/** Limit on QEMU's threads, most of which wait for disks. */
const THREADS = 256
const CPU = /^cpu\./
const KILL_DEADLINE_MS = 10_000

export interface MachineLimits {
  readonly cpuCores: number
  readonly memoryMb: number
}

export class MachineGroups {
  readonly #layout: CgroupLayout
  readonly #parent: string

  private constructor(layout: CgroupLayout, parent: string) {
    this.#layout = layout
    this.#parent = parent
  }

  /** Null if this daemon cannot create cgroups. */
  static open(dataDir: string): MachineGroups | null {
    // Separate from the cgroups of the oci backend, which kills groups that it does not know.
    const parent = `${parentName(dataDir)}-vm`
    const isRoot = process.getuid?.() === 0 && /^\s*0\s+0\s+4294967295\s*$/.test(readFileSync('/proc/self/uid_map', 'utf8'))
    const layout = usableCgroups(isRoot, `${parent}-trial`)
    return layout === null ? null : new MachineGroups(layout, parent)
  }

  newName(): string {
    return randomBytes(8).toString('hex')
  }

  /** The groups for the supervisor's job. Cpu limits are left out until the session runs, because they would only slow down the boot. */
  enter(name: string, limits: MachineLimits): Group[] {
    return this.#groups(name, limits).map(group => ({ ...group, settings: group.settings.filter(({ file }) => !CPU.test(file)) }))
  }

  /** Sets the cpu limits that enter() leaves out, and reads them back. */
  limitCpu(name: string, limits: MachineLimits): void {
    for (const { dir, settings } of this.#groups(name, limits)) {
      for (const { file, value } of settings.filter(setting => CPU.test(setting.file))) {
        const path = join(dir, file)
        writeFileSync(path, value)
        // SECURITY: the kernel may accept a value without applying it.
        const kept = readFileSync(path, 'utf8').trim()
        if (kept !== value) throw new Error(`limit ${path} is ${kept} after ${value} was written`)
      }
    }
  }

  async cpuUsageUsec(name: string): Promise<number> {
    return (await readStats(machineCgroup(this.#layout, this.#parent, name))).cpuUsageUsec
  }

  /** Kills all members and removes the groups. */
  async remove(name: string): Promise<void> {
    const deadline = Date.now() + KILL_DEADLINE_MS
    for (const { dir } of leftGroups(this.#layout, this.#parent, name)) {
      while (!isRemoved(dir)) {
        for (const pid of members(dir)) kill(pid)
        if (Date.now() > deadline) throw new Error(`cgroup ${dir} cannot be removed`)
        await delay(2)
      }
      // The parent stays while it has other groups.
      isRemoved(dirname(dir))
    }
  }

  /** SECURITY: ends machines that no record names; they could not be found by their id. */
  async removeLost(known: ReadonlySet<string>): Promise<void> {
    for (const name of lostGroups(this.#layout, this.#parent, known)) await this.remove(name)
  }

  #groups(name: string, { cpuCores, memoryMb }: MachineLimits): Group[] {
    const limits = { cpuCores, memoryMb: guestMemoryMb(memoryMb) + QEMU_MB, pidsLimit: THREADS }
    return groupsOf(this.#layout, this.#parent, name, limits, true).map(({ devices: _, ...group }) => group)
  }
}

function members(dir: string): number[] {
  try {
    return readFileSync(join(dir, 'cgroup.procs'), 'utf8').split('\n').filter(Boolean).map(Number)
  } catch (error) {
    if (isMissing(error)) return []
    throw error
  }
}

function isRemoved(dir: string): boolean {
  try {
    rmdirSync(dir)
    return true
  } catch (error) {
    if (isMissing(error)) return true
    if (error instanceof Error && 'code' in error && (error.code === 'EBUSY' || error.code === 'ENOTEMPTY')) return false
    throw error
  }
}
