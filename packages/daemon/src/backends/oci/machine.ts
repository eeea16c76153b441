// One running machine of the oci backend.
import { join } from 'node:path'
import { RunnerSocket } from '../../runner-link/runner-socket.ts'
import type { Epitaph, Machine, MachineLimits } from '../backend.ts'
import { readStats, unwrittenBytes } from '../cgroups/files.ts'
import { freeze, thaw } from '../cgroups/freeze.ts'
import { oomKills, pidRefusals, readLimitEvents } from '../cgroups/limit-events.ts'
import { openFilesIn } from '../isolation/open-files.ts'
import { isAlive } from '../machine/process-state.ts'
import type { Launcher } from './launcher/launcher.ts'
import { resizeMachine } from './launcher/resize.ts'
import type { OciPaths } from './paths.ts'
import type { Host } from './probe.ts'
import type { MachineRecord, MachineState } from './record.ts'

/** What the backend does for its machines. */
interface Hands {
  launcher(): Launcher
  stop(id: string): Promise<void>
  discard(id: string): Promise<void>
}

export function ociMachine(host: Host, paths: OciPaths, record: MachineRecord, state: MachineState, hands: Hands): Machine {
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
    limitEvents: () => readLimitEvents(cgroups, paths.cgroupParent, group, state.pid),
    ...(cgroups?.roots.pids === undefined
      ? {}
      : {
          openFiles: (withMapped: boolean) => openFilesIn(join(cgroups.roots.pids ?? '', paths.cgroupParent, group), withMapped),
        }),
    epitaph: () => epitaph(host, paths, group),
    unwritten: () => unwrittenBytes(cgroups, paths.cgroupParent, group),
    ...(cgroups?.roots.freezer === undefined
      ? {}
      : {
          pause: deadlineMs => freeze(cgroups, paths.cgroupParent, group, deadlineMs),
          resume: () => thaw(cgroups, paths.cgroupParent, group),
        }),
    ...(cgroups === null
      ? {}
      : { resize: (limits: MachineLimits) => resizeMachine(host, paths, hands.launcher(), record, limits) }),
    stop: () => hands.stop(id),
    destroy: () => hands.discard(id),
  }
}

async function epitaph(host: Host, paths: OciPaths, group: string): Promise<Epitaph> {
  const kills = await oomKills(host.cgroups, paths.cgroupParent, group)
  if (kills !== null && kills > 0) {
    return {
      limit: 'memory_mb',
      text: `the sandbox ran out of memory: the kernel killed ${kills} of its processes, and its first process is gone`,
    }
  }
  const refusals = await pidRefusals(host.cgroups, paths.cgroupParent, group)
  const gone = 'the first process of the sandbox is gone'
  if (refusals === null || refusals === 0) return { limit: null, text: gone }
  return { limit: 'pids_limit', text: `${gone}; the sandbox had reached its limit of processes (pids_limit)` }
}
