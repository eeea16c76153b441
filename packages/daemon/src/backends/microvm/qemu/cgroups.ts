// The cgroups of one machine: QEMU, its keeper and what serves its folders. The machine's own kernel keeps the session's limits; these hold
// even if that kernel is taken over, and count what the machine costs.
import { randomBytes } from 'node:crypto'
import { readFileSync, rmdirSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { setTimeout as delay } from 'node:timers/promises'
import { isMissing } from '../../../lib/missing-file.ts'
import { lostGroups, usableCgroups } from '../../cgroups/delegation.ts'
import { readStats } from '../../cgroups/files.ts'
import { type CgroupLayout, type Group, groupsOf, leftGroups, parentName } from '../../cgroups/layout.ts'
import { kill } from './processes.ts'
import { guestMemoryMb } from './qemu-args.ts'

/** What QEMU may take beside the machine's memory: the emulator, its cache of translated code, buffers of disks. */
const QEMU_MB = 384
/** Threads of QEMU, most of which wait for a disk. */
const THREADS = 256
const CPU = /^cpu\./
const END_MS = 10_000

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

  /** Null where this daemon may make none. */
  static open(dataDir: string): MachineGroups | null {
    // Apart from those of the native backend, which ends what it does not know.
    const parent = `${parentName(dataDir)}-vm`
    const isRoot = process.getuid?.() === 0 && /^\s*0\s+0\s+4294967295\s*$/.test(readFileSync('/proc/self/uid_map', 'utf8'))
    const layout = usableCgroups(isRoot, `${parent}-trial`)
    return layout === null ? null : new MachineGroups(layout, parent)
  }

  newName(): string {
    return randomBytes(8).toString('hex')
  }

  /** As the keeper takes them. Until the session runs the processor is not limited: booting would take longer for nothing. */
  enter(name: string, limits: MachineLimits): Group[] {
    return this.#groups(name, limits).map(group => ({ ...group, settings: group.settings.filter(({ file }) => !CPU.test(file)) }))
  }

  /** Sets the limits that were left out before, and reads them back. */
  limitCpu(name: string, limits: MachineLimits): void {
    for (const { dir, settings } of this.#groups(name, limits)) {
      for (const { file, value } of settings.filter(setting => CPU.test(setting.file))) {
        const path = join(dir, file)
        writeFileSync(path, value)
        // SECURITY: a limit that the kernel took and did not keep is no limit.
        const kept = readFileSync(path, 'utf8').trim()
        if (kept !== value) throw new Error(`limit ${path} is ${kept} after ${value} was written`)
      }
    }
  }

  async cpuUsageUsec(name: string): Promise<number> {
    return (await readStats(this.#layout, this.#parent, name)).cpuUsageUsec
  }

  /** Kills what is in them and removes them. */
  async remove(name: string): Promise<void> {
    const deadline = Date.now() + END_MS
    for (const { dir } of leftGroups(this.#layout, this.#parent, name)) {
      while (!isRemoved(dir)) {
        for (const pid of members(dir)) kill(pid)
        if (Date.now() > deadline) throw new Error(`cgroup ${dir} cannot be removed`)
        await delay(2)
      }
      // Others may be in the folder above: then it stays.
      isRemoved(dirname(dir))
    }
  }

  /** SECURITY: a machine that no record names could not be found again by its id. */
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
