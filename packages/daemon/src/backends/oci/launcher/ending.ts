// Ends machines and removes what may be left of them.
import { rm } from 'node:fs/promises'

import { lostGroups, usableCgroups } from '../../cgroups/delegation.ts'
import type { OciPaths } from '../paths.ts'
import type { Host } from '../probe.ts'
import { type MachineRecord, readState } from '../record.ts'
import type { Runtimes } from '../runtime/runtimes.ts'
import { inUserNamespace } from '../users/enter-userns.ts'
import { type EndHost, endJob, runtimeArgv, spareDisk, sweepJob } from './jobs.ts'
import { LaunchError, type Launcher } from './launcher.ts'

const END_DEADLINE_MS = 60_000
const SWEEP_DEADLINE_MS = 10_000

export class Ending {
  readonly #paths: OciPaths
  readonly #runtimes: Runtimes
  readonly #launcher: Launcher

  constructor(paths: OciPaths, runtimes: Runtimes, launcher: Launcher) {
    this.#paths = paths
    this.#runtimes = runtimes
    this.#launcher = launcher
  }

  /** `host` is null if nothing can be started here. Machines are ended even if their runtime is gone. */
  async end(host: Host | null, id: string, record: MachineRecord | null, saveFiles: boolean): Promise<void> {
    const state = await readState(this.#paths.session(id))
    const deadline = AbortSignal.timeout(END_DEADLINE_MS)
    let failure: LaunchError | null = null
    for (const tried of await this.#hosts(host, record)) {
      try {
        await this.#launcher.run(endJob(tried, this.#paths, id, record, state, saveFiles), deadline)
        return
      } catch (error) {
        if (!(error instanceof LaunchError)) throw error
        failure ??= error
      }
    }
    if (failure !== null) throw failure
  }

  /**
   * Kills what runs in cgroups that belong to no machine. SECURITY: nobody could find a machine without a record by its id.
   * The records are read after the cgroups: a new machine has its record before its launcher is done.
   */
  async endLost(host: Host | null, records: () => Promise<readonly MachineRecord[]>): Promise<void> {
    const { cgroups } = this.#host(host)
    if (cgroups === null) return
    const unknown = lostGroups(cgroups, this.#paths.cgroupParent, new Set(this.#launcher.groups()))
    if (unknown.length === 0) return
    const known = new Set((await records()).map(({ group }) => group))
    const names = unknown.filter(name => !known.has(name))
    if (names.length === 0) return
    await this.#launcher.run(sweepJob(cgroups, this.#paths, names), AbortSignal.timeout(SWEEP_DEADLINE_MS))
  }

  /** Removes the cgroups and the disk of a launcher that was killed while it waited. */
  async endLauncher(host: Host, group: string, records: () => Promise<readonly MachineRecord[]>): Promise<void> {
    await this.endLost(host, records)
    await rm(spareDisk(this.#paths, group), { force: true })
  }

  /** Without a record, any runtime may have started the machine, and only that one can delete it. So each is tried. */
  async #hosts(host: Host | null, record: MachineRecord | null): Promise<EndHost[]> {
    if (record !== null || host === null) return [this.#host(host)]
    const others = await this.#runtimes.others(host)
    return [host, ...others.map(other => ({ ...host, ...other }))].map(tried => this.#host(tried))
  }

  #host(host: Host | null): EndHost {
    if (host !== null) return { ...host, runtime: runtimeArgv(host, this.#paths) }
    return { runtime: [], cgroups: usableCgroups(!inUserNamespace(), `${this.#paths.cgroupParent}-trial`), hiddenMounts: [] }
  }
}
