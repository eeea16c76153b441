// One running machine of the oci backend.
import { RunnerSocket } from '../../runner-link/runner-socket.ts'
import type { Machine } from '../backend.ts'
import { oomKills, pidRefusals, readStats, unwrittenBytes } from '../cgroups/files.ts'
import { freeze, thaw } from '../cgroups/freeze.ts'
import { isAlive } from '../process-state.ts'
import type { OciPaths } from './paths.ts'
import type { Host } from './probe.ts'
import type { MachineRecord, MachineState } from './record.ts'

interface Ends {
  stop(id: string): Promise<void>
  discard(id: string): Promise<void>
}

export function ociMachine(host: Host, paths: OciPaths, record: MachineRecord, state: MachineState, ends: Ends): Machine {
  const { id, group } = record
  const { cgroups } = host
  return {
    id,
    containerId: id,
    mux: false,
    token: record.token,
    unenforced: record.unenforced,
    dial: () => RunnerSocket.dial(paths.socket(id)),
    isRunning: async () => isAlive(state),
    stats: () => readStats(cgroups, paths.cgroupParent, group),
    epitaph: () => epitaph(host, paths, group),
    unwritten: () => unwrittenBytes(cgroups, paths.cgroupParent, group),
    ...(cgroups?.roots.freezer === undefined
      ? {}
      : {
          pause: deadlineMs => freeze(cgroups, paths.cgroupParent, group, deadlineMs),
          resume: () => thaw(cgroups, paths.cgroupParent, group),
        }),
    stop: () => ends.stop(id),
    destroy: () => ends.discard(id),
  }
}

async function epitaph(host: Host, paths: OciPaths, group: string): Promise<{ outOfMemory: boolean; text: string }> {
  const kills = await oomKills(host.cgroups, paths.cgroupParent, group)
  if (kills !== null && kills > 0) {
    return {
      outOfMemory: true,
      text: `the sandbox ran out of memory: the kernel killed ${kills} of its processes, and its first process is gone`,
    }
  }
  const refusals = await pidRefusals(host.cgroups, paths.cgroupParent, group)
  const limit = refusals !== null && refusals > 0 ? '; the sandbox had reached its limit of processes (pids_limit)' : ''
  return { outOfMemory: false, text: `the first process of the sandbox is gone${limit}` }
}
