// Ends machines, and whatever may be left of one.
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

  /** `host` is null where nothing can be started: a runtime that is gone is no reason to leave a machine running. */
  async end(host: Host | null, id: string, record: MachineRecord | null, keepFiles: boolean): Promise<void> {
    const state = await readState(this.#paths.session(id))
    const deadline = AbortSignal.timeout(END_DEADLINE_MS)
    let failure: LaunchError | null = null
    for (const tried of await this.#hosts(host, record)) {
      try {
        await this.#launcher.run(endJob(tried, this.#paths, id, record, state, keepFiles), deadline)
        return
      } catch (error) {
        if (!(error instanceof LaunchError)) throw error
        failure ??= error
      }
    }
    if (failure !== null) throw failure
  }

  /**
   * SECURITY: a machine that no record names could not be found again by its id. What runs in a group of nobody's is killed.
   * The records are read after the groups: one that is no launcher's any more by then has its record, however new it is.
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

  /** One that waited is gone, and what it had got ready goes as well. */
  async endLauncher(host: Host, group: string, records: () => Promise<readonly MachineRecord[]>): Promise<void> {
    await this.endLost(host, records)
    await rm(spareDisk(this.#paths, group), { force: true })
  }

  /** Without its record, any runtime may have started the machine, and the others do not know what to make of what it left. */
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
