// What a session's folder says about its machine. The record is there before anything else, so that a crash at any point leaves a folder that
// tells whose it is.
import { rm } from 'node:fs/promises'
import { join } from 'node:path'
import { z } from 'zod'
import { readJson, writeJson } from '../../lib/json-file.ts'
import { GROUP_NAME } from '../cgroups/layout.ts'
import { ProcessState } from '../machine/process-state.ts'
import { placeRecord } from '../machine/session-folders.ts'

/** config.json, mode 0600. SECURITY: it holds the token; a session's environment is in no file. */
const MicrovmRecord = z.object({
  backend: z.literal('microvm'),
  version: z.literal(1),
  id: z.string(),
  name: z.string(),
  /** The image as the user named it, and the files of its disks, which must stay while the machine runs. */
  image: z.string(),
  disks: z.array(z.string()),
  token: z.string(),
  diskMb: z.int(),
  diskFormat: z.enum(['qcow2', 'raw']),
  /** Whom QEMU runs as; null where it is the daemon's own user. */
  jailId: z.int().nullable(),
  /** Name of its cgroups; null where this host allows none. */
  group: z.string().regex(GROUP_NAME).nullable(),
  unenforced: z.array(z.enum(['cpu', 'memory', 'pids', 'disk'])),
})
export type MicrovmRecord = z.infer<typeof MicrovmRecord>

/** state.json: QEMU, and the process that stays with it. Written once the runner listens. */
const MachineState = ProcessState.extend({ keeper: ProcessState })
export type MachineState = z.infer<typeof MachineState>

export const writeRecord = (folder: string, record: MicrovmRecord): Promise<void> => placeRecord(folder, record)

export const writeState = (folder: string, state: MachineState): Promise<void> => writeJson(join(folder, 'state.json'), state)

export async function removeState(folder: string): Promise<void> {
  await rm(join(folder, 'state.json'), { force: true })
}

/** Null when there is none, or only part of one. */
export const readRecord = (folder: string): Promise<MicrovmRecord | null> => readJson(join(folder, 'config.json'), MicrovmRecord)

export const readState = (folder: string): Promise<MachineState | null> => readJson(join(folder, 'state.json'), MachineState)
