// What a session's folder says about its machine. The record is there before anything else, so that a crash at any point leaves a folder that
// tells whose it is.
import { randomBytes } from 'node:crypto'
import { mkdir, readFile, rename, rm, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { z } from 'zod'
import { GROUP_NAME } from '../cgroups/layout.ts'
import { isMissing } from '../missing-file.ts'

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

const ProcessState = z.object({ pid: z.int(), start_time: z.int(), boot_id: z.string() })
export type ProcessState = z.infer<typeof ProcessState>

/** state.json: QEMU, and the process that stays with it. Written once the runner listens. */
const MachineState = ProcessState.extend({ keeper: ProcessState })
export type MachineState = z.infer<typeof MachineState>

/** A new folder appears with its record in it, so that nobody takes it for a leftover of another backend. */
export async function writeRecord(folder: string, record: MicrovmRecord): Promise<void> {
  const fresh = `${folder}.${randomBytes(4).toString('hex')}.new`
  await mkdir(join(fresh, 'logs'), { recursive: true, mode: 0o700 })
  await writeFile(join(fresh, 'config.json'), JSON.stringify(record), { mode: 0o600 })
  try {
    await rename(fresh, folder)
  } catch (error) {
    if (!isOccupied(error)) throw error
    await rename(join(fresh, 'config.json'), join(folder, 'config.json'))
    await rm(fresh, { recursive: true, force: true })
  }
}

export async function writeState(folder: string, state: MachineState): Promise<void> {
  const path = join(folder, 'state.json')
  await writeFile(`${path}.new`, JSON.stringify(state), { mode: 0o600 })
  await rename(`${path}.new`, path)
}

export async function removeState(folder: string): Promise<void> {
  await rm(join(folder, 'state.json'), { force: true })
}

/** Null when there is none, or only part of one. */
export async function readRecord(folder: string): Promise<MicrovmRecord | null> {
  return await readParsed(join(folder, 'config.json'), MicrovmRecord)
}

export async function readState(folder: string): Promise<MachineState | null> {
  return await readParsed(join(folder, 'state.json'), MachineState)
}

async function readParsed<T>(path: string, schema: z.ZodType<T>): Promise<T | null> {
  try {
    return schema.safeParse(JSON.parse(await readFile(path, 'utf8'))).data ?? null
  } catch (error) {
    if (isMissing(error) || error instanceof SyntaxError) return null
    throw error
  }
}

const isOccupied = (error: unknown) =>
  error instanceof Error && 'code' in error && (error.code === 'ENOTEMPTY' || error.code === 'EEXIST')
