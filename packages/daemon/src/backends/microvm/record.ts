// The files config.json and state.json in a session's folder. config.json is written first, so that after a crash at any point the folder names its
// machine.
import { rm } from 'node:fs/promises'
import { join } from 'node:path'
import { z } from 'zod'
import { readJson, writeJson } from '../../lib/json-file.ts'
import { GROUP_NAME } from '../cgroups/layout.ts'
import { ProcessState } from '../machine/process-state.ts'
import { placeRecord } from '../machine/session-folders.ts'

/** config.json, mode 0600. SECURITY: it has the tokens. The session's environment is in no file. */
const MicrovmRecord = z.object({
  backend: z.literal('microvm'),
  version: z.literal(1),
  id: z.string(),
  name: z.string(),
  /** The image as the user named it, and the names of its disks, which are kept while the session exists. */
  image: z.string(),
  disks: z.array(z.string()),
  token: z.string(),
  /** The token of the egress endpoint. Null for a machine without one. */
  egressToken: z.string().nullable().default(null),
  diskMb: z.int(),
  diskFormat: z.enum(['qcow2', 'raw']),
  /** User id of QEMU; null for the daemon's own user. */
  jailId: z.int().nullable(),
  /** Name of the machine's cgroups; null if the daemon cannot create cgroups. */
  group: z.string().regex(GROUP_NAME).nullable(),
  unenforced: z.array(z.enum(['cpu', 'memory', 'pids', 'disk'])),
})
export type MicrovmRecord = z.infer<typeof MicrovmRecord>

/** state.json: QEMU and its supervisor. Written once the runner listens. */
const MachineState = z.preprocess(withSupervisor, ProcessState.extend({ supervisor: ProcessState }))
export type MachineState = z.infer<typeof MachineState>

/** Earlier versions called the supervisor keeper. Their machines may still run. */
function withSupervisor(state: unknown): unknown {
  return typeof state === 'object' && state !== null && 'keeper' in state ? { supervisor: state.keeper, ...state } : state
}

export const writeRecord = (folder: string, record: MicrovmRecord): Promise<void> => placeRecord(folder, record)

export const writeState = (folder: string, state: MachineState): Promise<void> => writeJson(join(folder, 'state.json'), state)

export async function removeState(folder: string): Promise<void> {
  await rm(join(folder, 'state.json'), { force: true })
}

/** Null if the file is missing or incomplete. */
export const readRecord = (folder: string): Promise<MicrovmRecord | null> => readJson(join(folder, 'config.json'), MicrovmRecord)

export const readState = (folder: string): Promise<MachineState | null> => readJson(join(folder, 'state.json'), MachineState)
