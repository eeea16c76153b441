// Ends machines, whatever is left of them.
import { rm } from 'node:fs/promises'
import { isAlive } from '../machine/process-state.ts'
import { askToEnd } from './boot/control-port.ts'
import type { MicrovmPaths } from './paths.ts'
import type { MachineGroups } from './qemu/cgroups.ts'
import { monitor } from './qemu/monitor.ts'
import { bearers, end, gone } from './qemu/processes.ts'
import { type MachineState, readRecord, readState, removeState } from './record.ts'

const END_DEADLINE_MS = 10_000
/** How long a machine may take to bring its disk in order before it is switched off. */
const ORDERLY_MS = 5000
const CONTINUE_MS = 1000

/** Resolves when no process, no cgroup and no socket of it is left. `orderly`: what was written is on the disk first. */
export async function endMachine(paths: MicrovmPaths, groups: MachineGroups | null, id: string, orderly: boolean): Promise<void> {
  const folder = paths.session(id)
  const [record, state] = await Promise.all([readRecord(folder), readState(folder)])
  if (state !== null && isAlive(state)) {
    if (orderly) await endOrderly(paths, id, state)
    await end(state, END_DEADLINE_MS)
  }
  // It writes how QEMU ended, and ends.
  if (state !== null) await gone(state.keeper, END_DEADLINE_MS)
  for (const left of bearers(id)) await end(left, END_DEADLINE_MS)
  if (record?.group) await groups?.remove(record.group)
  await removeState(folder)
  for (const socket of Object.values(paths.sockets(id))) await rm(socket, { force: true })
}

async function endOrderly(paths: MicrovmPaths, id: string, state: MachineState): Promise<void> {
  const sockets = paths.sockets(id)
  // One that is paused hears nothing. One that does not answer, or has no such socket any more, is switched off by the caller.
  await monitor(sockets.monitor, command => command('cont'), CONTINUE_MS).catch(() => undefined)
  await askToEnd(sockets.control).catch(() => undefined)
  await gone(state, ORDERLY_MS)
}
