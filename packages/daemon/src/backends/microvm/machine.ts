// One running machine of the microvm backend.
import { RunnerSocket } from '../../runner-link/runner-socket.ts'
import type { Epitaph, Machine, MachineStats } from '../backend.ts'
import { isAlive } from '../machine/process-state.ts'
import { lastWords } from './boot/boot-log.ts'
import { readLimitEvents, readStats } from './boot/control-port.ts'
import type { MicrovmPaths } from './paths.ts'
import type { MachineGroups } from './qemu/cgroups.ts'
import { monitor } from './qemu/monitor.ts'
import { gone } from './qemu/processes.ts'
import type { MachineState, MicrovmRecord } from './record.ts'

interface Ends {
  stop(id: string): Promise<void>
  discard(id: string): Promise<void>
}

const STATS_DEADLINE_MS = 5000
const LOG_DEADLINE_MS = 2000
/** What the machine says of a runner that the kernel killed for want of memory. */
const OUT_OF_MEMORY = 'the session ran out of memory'

export function microvmMachine(
  paths: MicrovmPaths,
  groups: MachineGroups | null,
  record: MicrovmRecord,
  state: MachineState,
  ends: Ends,
): Machine {
  const { id, group } = record
  const sockets = paths.sockets(id)
  const look = async (deadlineMs = STATS_DEADLINE_MS) => {
    const inside = await readStats(sockets.control, AbortSignal.timeout(deadlineMs))
    if (groups === null || group === null) return inside
    // What the machine costs, the emulation of its devices included: that is what is limited.
    return { ...inside, cpuUsageUsec: await groups.cpuUsageUsec(group) }
  }
  // A machine that stands still cannot be asked: what it used is what it used before.
  let frozen: MachineStats | null = null
  return {
    id,
    containerId: id,
    token: record.token,
    unenforced: record.unenforced,
    mux: true,
    dial: () => RunnerSocket.dial(sockets.carrier),
    isRunning: async () => isAlive(state),
    stats: async () => frozen ?? (await look()),
    limitEvents: () => readLimitEvents(sockets.control, AbortSignal.timeout(STATS_DEADLINE_MS)),
    epitaph: () => epitaph(paths, id, state),
    pause: async deadlineMs => {
      const last = await look(deadlineMs)
      await monitor(sockets.monitor, command => command('stop'))
      frozen = last
    },
    resume: async () => {
      await monitor(sockets.monitor, command => command('cont'))
      frozen = null
    },
    stop: () => ends.stop(id),
    destroy: () => ends.discard(id),
  }
}

async function epitaph(paths: MicrovmPaths, id: string, state: MachineState): Promise<Epitaph> {
  // The keeper writes the last words, and ends.
  await gone(state.keeper, LOG_DEADLINE_MS)
  const last = await lastWords(paths.bootLog(id))
  const limit = last.includes(OUT_OF_MEMORY) ? 'memory_mb' : null
  return { limit, text: `the virtual machine is gone; the last it said: ${last}` }
}
