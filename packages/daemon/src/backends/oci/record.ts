// The record and the state of a machine, as files in its session's folder. The launcher writes the record before it creates anything, so that a
// crash at any point leaves a record of what may have been created.
import { join } from 'node:path'
import { z } from 'zod'
import { readJson, readJsonSync, writeJson } from '../../lib/json-file.ts'
import { GROUP_NAME } from '../cgroups/layout.ts'
import { ProcessState } from '../machine/process-state.ts'

const Limit = z.enum(['cpu', 'memory', 'pids', 'disk'])

/** config.json, mode 0600. SECURITY: it holds the tokens; a session's environment is in no file. */
const MachineRecord = z.object({
  version: z.literal(1),
  id: z.string(),
  name: z.string(),
  image: z.string(),
  /** Folder name of the image's root filesystem, which must stay while the machine runs. */
  rootfs: z.string(),
  /** Folder name of its runner, likewise. */
  runner: z.string().optional(),
  slot: z.int(),
  /** Name of its cgroup, below the daemon's. */
  group: z.string().regex(GROUP_NAME),
  token: z.string(),
  /** The token of the egress endpoint. Null for a machine without one. */
  egressToken: z.string().nullable().default(null),
  /** The argv of the runtime that ends the machine, even if the configuration has changed, and the mounts that this runtime must not see. */
  runtime: z.array(z.string()),
  hiddenMounts: z.array(z.string()).optional(),
  readonlyRootfs: z.boolean(),
  /** True for gVisor, which enforces the process limit itself. */
  ownKernel: z.boolean().optional(),
  diskMb: z.int(),
  unenforced: z.array(Limit),
})
export type MachineRecord = z.infer<typeof MachineRecord>

/** state.json, written by the launcher once the machine runs. */
const MachineState = z.preprocess(
  withHolder,
  ProcessState.extend({ holder: ProcessState.optional().describe('keeps a disk in memory alive') }),
)
export type MachineState = z.infer<typeof MachineState>

/** Earlier versions called the holder keeper. Their machines may still run. */
function withHolder(state: unknown): unknown {
  return typeof state === 'object' && state !== null && 'keeper' in state ? { holder: state.keeper, ...state } : state
}

export const writeRecord = (folder: string, record: MachineRecord): Promise<void> =>
  writeJson(join(folder, 'config.json'), record)

/** Null when there is none, or only a part of one after a start that was interrupted early. */
export const readRecord = (folder: string): Promise<MachineRecord | null> => readJson(join(folder, 'config.json'), MachineRecord)

export const readState = (folder: string): Promise<MachineState | null> => readJson(join(folder, 'state.json'), MachineState)

/** For a program that is about to exec another one and cannot wait. */
export const readStateSync = (folder: string): MachineState | null => readJsonSync(join(folder, 'state.json'), MachineState)
