// One running machine of the oci backend.
import { RunnerSocket } from '@sandglass/runner-link/runner-socket'
import type { Machine, MachineEgress, MachineExit, MachineLimits } from '../backend.ts'
import { type Cgroup, machineCgroup } from '../cgroups/cgroup.ts'
import { freeze, thaw } from '../cgroups/freezer.ts'
import { readDirtyBytes, readLimitEvents, readOomKills, readPidRefusals, readStats } from '../cgroups/usage.ts'
import { openFilesIn } from '../isolation/open-files.ts'
import { isAlive } from '../machine/process-state.ts'
import type { Launcher } from './launcher/launcher.ts'
import { resizeMachine } from './launcher/resize.ts'
import type { OciPaths } from './paths.ts'
import type { Host } from './probe.ts'
import type { MachineRecord, MachineState } from './record.ts'

/** The backend, which serializes what ends a machine with what starts it. */
export interface MachineOwner {
  readonly launcher: Launcher
  stop(id: string): Promise<void>
  discard(id: string): Promise<void>
}

export function ociMachine(
  host: Host,
  paths: OciPaths,
  record: MachineRecord,
  state: MachineState,
  owner: MachineOwner,
): Machine {
  const { id } = record
  const cgroup = machineCgroup(host.cgroups, paths.cgroupParent, record.group)
  const pidsDir = cgroup?.dirs.pids
  return {
    id,
    containerId: id,
    mux: false,
    token: record.token,
    egress: egressOf(record, paths),
    unenforced: record.unenforced,
    dial: () => RunnerSocket.dial(paths.socket(id)),
    isRunning: async () => isAlive(state),
    stats: () => readStats(cgroup),
    limitEvents: () => readLimitEvents(cgroup, state.pid),
    ...(pidsDir === undefined ? {} : { openFiles: (withMapped: boolean) => openFilesIn(pidsDir, withMapped) }),
    exitReason: () => exitReason(cgroup),
    dirtyBytes: () => readDirtyBytes(cgroup),
    ...(cgroup?.dirs.freezer === undefined
      ? {}
      : { pause: deadlineMs => freeze(cgroup, deadlineMs), resume: () => thaw(cgroup) }),
    ...(cgroup === null ? {} : { resize: (limits: MachineLimits) => resizeMachine(host, paths, owner.launcher, record, limits) }),
    stop: () => owner.stop(id),
    destroy: () => owner.discard(id),
  }
}

function egressOf({ id, egressToken }: MachineRecord, paths: OciPaths): MachineEgress | null {
  return egressToken === null ? null : { token: egressToken, endpoint: { kind: 'socket', path: paths.egressSocket(id) } }
}

async function exitReason(cgroup: Cgroup | null): Promise<MachineExit> {
  const kills = await readOomKills(cgroup)
  if (kills !== null && kills > 0) {
    return {
      limit: 'memory_mb',
      text: `the sandbox ran out of memory: the kernel killed ${kills} of its processes, and its first process is gone`,
    }
  }
  const refusals = await readPidRefusals(cgroup)
  const gone = 'the first process of the sandbox is gone'
  if (refusals === null || refusals === 0) return { limit: null, text: gone }
  return { limit: 'pids_limit', text: `${gone}; the sandbox had reached its limit of processes (pids_limit)` }
}
