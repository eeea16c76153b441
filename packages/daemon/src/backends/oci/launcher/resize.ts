// Changes the limits of a running machine.
import type { MachineLimits } from '../../backend.ts'
import { machineCgroup } from '../../cgroups/cgroup.ts'
import { groupsOf } from '../../cgroups/layout.ts'
import { readStats } from '../../cgroups/usage.ts'
import { unsupported } from '../../machine/refusals.ts'
import type { OciPaths } from '../paths.ts'
import type { Host } from '../probe.ts'
import type { MachineRecord } from '../record.ts'
import { processLimit } from '../runtime/profile.ts'
import type { Launcher } from './launcher.ts'

const DEADLINE_MS = 20_000

/** The launcher does it, because Node has no prlimit. */
export async function resizeMachine(
  host: Host,
  paths: OciPaths,
  launcher: Launcher,
  record: MachineRecord,
  limits: MachineLimits,
): Promise<void> {
  const { cgroups } = host
  if (cgroups === null) throw unsupported('resize without cgroups', STOP_FIRST)
  const { pidsLimit } = await readStats(machineCgroup(cgroups, paths.cgroupParent, record.group))
  const fixed = record.ownKernel ? 'in gVisor' : fixedProcesses(host)
  if (fixed !== null && pidsLimit !== null && pidsLimit !== limits.pidsLimit)
    throw unsupported(`another pids_limit while the session runs, ${fixed}`, STOP_FIRST)
  const groups = groupsOf(cgroups, paths.cgroupParent, record.group, limits, false)
  const resize = { groups, processes: fixed !== null ? 0 : processLimit(host, limits) }
  await launcher.run({ resize }, AbortSignal.timeout(DEADLINE_MS))
}

const STOP_FIRST = 'stop the session, resize it, and start it again'

/** Why the number of processes of one user of a sandbox cannot be changed, or null. */
function fixedProcesses({ rootless, mayLimitProcesses }: Pick<Host, 'rootless' | 'mayLimitProcesses'>): string | null {
  if (rootless) return 'where the daemon runs as an ordinary user'
  return mayLimitProcesses ? null : 'where the daemon does not have CAP_SYS_RESOURCE'
}
