// What a session's folder says about its machine. The launcher writes the record before it makes anything, so that a crash at any point
// leaves a folder that tells what may have been left behind.
import { readFileSync } from 'node:fs'
import { readFile, rename, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { z } from 'zod'
import { GROUP_NAME } from '../cgroups/layout.ts'
import { isMissing } from '../missing-file.ts'

const Limit = z.enum(['cpu', 'memory', 'pids', 'disk'])

/** config.json, mode 0600. SECURITY: it holds the token; a session's environment is in no file. */
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
  /** Name of its cgroups, below the daemon's. */
  group: z.string().regex(GROUP_NAME),
  token: z.string(),
  /** What ends it, whatever the configuration says by then: the runtime's argv, and the mounts that it must not see. */
  runtime: z.array(z.string()),
  hiddenMounts: z.array(z.string()).optional(),
  readonlyRootfs: z.boolean(),
  diskMb: z.int(),
  unenforced: z.array(Limit),
})
export type MachineRecord = z.infer<typeof MachineRecord>

/** state.json, written by the launcher once the machine runs. */
const ProcessState = z.object({ pid: z.int(), start_time: z.int(), boot_id: z.string() })
const MachineState = ProcessState.extend({ keeper: ProcessState.optional().describe('holds a disk in memory') })
export type MachineState = z.infer<typeof MachineState>

export async function writeRecord(folder: string, record: MachineRecord): Promise<void> {
  const path = join(folder, 'config.json')
  await writeFile(`${path}.new`, JSON.stringify(record), { mode: 0o600 })
  await rename(`${path}.new`, path)
}

/** Null when there is none, or only part of one: the folder of a start that did not get far. */
export async function readRecord(folder: string): Promise<MachineRecord | null> {
  return await readParsed(join(folder, 'config.json'), MachineRecord)
}

export async function readState(folder: string): Promise<MachineState | null> {
  return await readParsed(join(folder, 'state.json'), MachineState)
}

/** For a program that is about to replace itself, and can wait for nothing. */
export function readStateSync(folder: string): MachineState | null {
  try {
    return MachineState.safeParse(JSON.parse(readFileSync(join(folder, 'state.json'), 'utf8'))).data ?? null
  } catch (error) {
    if (isMissing(error) || error instanceof SyntaxError) return null
    throw error
  }
}

/** True while the process that the state names lives: the same number with another start time is another process. */
export function isAlive(state: MachineState): boolean {
  try {
    if (readFileSync('/proc/sys/kernel/random/boot_id', 'utf8').trim() !== state.boot_id) return false
    const stat = readFileSync(`/proc/${state.pid}/stat`, 'utf8')
    const fields = stat.slice(stat.lastIndexOf(')') + 2).split(' ')
    return fields[0] !== 'Z' && fields[0] !== 'X' && Number(fields[19]) === state.start_time
  } catch (error) {
    if (isMissing(error)) return false
    throw error
  }
}

async function readParsed<T>(path: string, schema: z.ZodType<T>): Promise<T | null> {
  try {
    return schema.safeParse(JSON.parse(await readFile(path, 'utf8'))).data ?? null
  } catch (error) {
    if (isMissing(error) || error instanceof SyntaxError) return null
    throw error
  }
}
