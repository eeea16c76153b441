// One machine of the microvm backend: what a session does with it, and how it ends.
import { readFile, rm } from 'node:fs/promises'
import { RunnerSocket } from '@sandglass/runner-link/runner-socket'
import { isMissing } from '../../lib/missing-file.ts'
import type { Machine, MachineExit, MachineStats } from '../backend.ts'
import { isAlive } from '../machine/process-state.ts'
import { askToEnd, readLimitEvents, readStats } from './boot/control-port.ts'
import { EXIT_PREFIX, type ExitReason, exitReasonIn } from './boot/guest-console.ts'
import type { MicrovmPaths } from './paths.ts'
import type { MachineGroups } from './qemu/cgroups.ts'
import { monitor } from './qemu/monitor.ts'
import { killAndWait, processesOf, waitForExit } from './qemu/processes.ts'
import { type MachineState, type MicrovmRecord, readRecord, readState, removeState } from './record.ts'

interface Ends {
  stop(id: string): Promise<void>
  discard(id: string): Promise<void>
}

const STATS_DEADLINE_MS = 5000
const LOG_DEADLINE_MS = 2000
const KILL_DEADLINE_MS = 10_000
/** How long an orderly shutdown may take before QEMU is killed. */
const SHUTDOWN_MS = 5000
const CONTINUE_MS = 1000
const LAST_LINES = 3
const LINE_LENGTH = 200
/** Lines that name a cause: a panic is followed by many that do not. */
const CAUSE = /Kernel panic|Out of memory|sandglass:|QEMU|qemu-system/

export function microvmMachine(
  paths: MicrovmPaths,
  groups: MachineGroups | null,
  record: MicrovmRecord,
  state: MachineState,
  ends: Ends,
): Machine {
  const { id, group } = record
  const sockets = paths.sockets(id)
  const currentStats = async (deadlineMs = STATS_DEADLINE_MS) => {
    const inside = await readStats(sockets.control, AbortSignal.timeout(deadlineMs))
    if (groups === null || group === null) return inside
    // The cpu time of QEMU's cgroup: the limit applies to it, and it includes the emulation of devices.
    return { ...inside, cpuUsageUsec: await groups.cpuUsageUsec(group) }
  }
  // A paused machine cannot answer, so the statistics from before the pause are kept.
  let statsBeforePause: MachineStats | null = null
  return {
    id,
    containerId: id,
    token: record.token,
    egress:
      record.egressToken === null ? null : { token: record.egressToken, endpoint: { kind: 'carrier', path: sockets.egress } },
    unenforced: record.unenforced,
    mux: true,
    dial: () => RunnerSocket.dial(sockets.carrier),
    isRunning: async () => isAlive(state),
    stats: async () => statsBeforePause ?? (await currentStats()),
    limitEvents: () => readLimitEvents(sockets.control, AbortSignal.timeout(STATS_DEADLINE_MS)),
    exitReason: () => exitReason(paths, id, state),
    pause: async deadlineMs => {
      const last = await currentStats(deadlineMs)
      await monitor(sockets.monitor, command => command('stop'))
      statsBeforePause = last
    },
    resume: async () => {
      await monitor(sockets.monitor, command => command('cont'))
      statsBeforePause = null
    },
    stop: () => ends.stop(id),
    destroy: () => ends.discard(id),
  }
}

/** Resolves when no process, cgroup or socket of the machine is left. `orderly`: the guest flushes its disk first. */
export async function endMachine(paths: MicrovmPaths, groups: MachineGroups | null, id: string, orderly: boolean): Promise<void> {
  const folder = paths.session(id)
  const [record, state] = await Promise.all([readRecord(folder), readState(folder)])
  if (state !== null && isAlive(state)) {
    if (orderly) await shutDown(paths, id, state)
    await killAndWait(state, KILL_DEADLINE_MS)
  }
  // The supervisor logs the exit status of QEMU and then exits.
  if (state !== null) await waitForExit(state.supervisor, KILL_DEADLINE_MS)
  for (const left of processesOf(id)) await killAndWait(left, KILL_DEADLINE_MS)
  if (record?.group) await groups?.remove(record.group)
  await removeState(folder)
  for (const socket of Object.values(paths.sockets(id))) await rm(socket, { force: true })
}

async function shutDown(paths: MicrovmPaths, id: string, state: MachineState): Promise<void> {
  const sockets = paths.sockets(id)
  // A paused guest must run to hear the request. If it does not answer, the caller kills QEMU.
  await monitor(sockets.monitor, command => command('cont'), CONTINUE_MS).catch(() => undefined)
  await askToEnd(sockets.control).catch(() => undefined)
  await waitForExit(state, SHUTDOWN_MS)
}

async function exitReason(paths: MicrovmPaths, id: string, state: MachineState): Promise<MachineExit> {
  // The supervisor completes the boot log before it exits.
  await waitForExit(state.supervisor, LOG_DEADLINE_MS)
  const { reason, text } = await readLogEnd(paths.bootLog(id))
  const limit = reason?.reason === 'out_of_memory' ? 'memory_mb' : null
  return { limit, text: `the virtual machine has ended; its boot log ends with: ${text}` }
}

/** `reason` is null if the guest ended without giving one. `text` has the last lines that name a cause, or else the last lines, joined to one. */
export async function readLogEnd(path: string): Promise<{ reason: ExitReason | null; text: string }> {
  try {
    const log = await readFile(path, 'latin1')
    const reason = exitReasonIn(log)
    const lines = log
      .split('\n')
      .map(line => printable(line.startsWith(EXIT_PREFIX) ? `sandglass: ${reason?.text ?? ''}` : line))
      .filter(line => line !== '')
    const causes = lines.filter(line => CAUSE.test(line))
    return { reason, text: (causes.length > 0 ? causes : lines).slice(-LAST_LINES).join(' | ') }
  } catch (error) {
    if (isMissing(error)) return { reason: null, text: 'nothing' }
    throw error
  }
}

// SECURITY: the guest controls this text, and it is shown on terminals.
function printable(line: string): string {
  return line
    .replaceAll(/[^\x20-\x7e]/g, '')
    .slice(0, LINE_LENGTH)
    .trim()
}
