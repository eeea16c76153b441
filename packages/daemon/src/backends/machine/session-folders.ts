// Every backend keeps a folder per session below the same one. Its config.json names the backend that it belongs to.
import { randomBytes } from 'node:crypto'
import { mkdir, readdir, rename, rm } from 'node:fs/promises'
import { join } from 'node:path'
import { z } from 'zod'
import { readJson, writeJson } from '../../lib/json-file.ts'
import { namesIn } from '../../lib/missing-file.ts'

const Owned = z.object({ backend: z.string() })
const UNPLACED = /\.[0-9a-f]{8}\.new$/

/** Ids of the folders that belong to a backend. One whose record is missing or says nothing belongs to `oci`, which clears up what is unclear. */
export async function sessionFolders(sessionsDir: string, backend: string): Promise<string[]> {
  const ids = await readdir(sessionsDir)
  const owners = await Promise.all(ids.map(id => readJson(join(sessionsDir, id, 'config.json'), Owned)))
  return ids.filter((_, i) => (owners[i]?.backend ?? 'oci') === backend)
}

/** A new folder appears with its record in it, so that nobody takes it for a leftover of another backend. */
export async function placeRecord(folder: string, record: z.infer<typeof Owned>): Promise<void> {
  const fresh = `${folder}.${randomBytes(4).toString('hex')}.new`
  await mkdir(join(fresh, 'logs'), { recursive: true, mode: 0o700 })
  await writeJson(join(fresh, 'config.json'), record)
  try {
    await rename(fresh, folder)
  } catch (error) {
    if (!isOccupied(error)) throw error
    await rename(join(fresh, 'config.json'), join(folder, 'config.json'))
    await rm(fresh, { recursive: true, force: true })
  }
}

/**
 * Removes the folders of placeRecord calls that a kill cut short. SECURITY: their records hold tokens of runners. Only for the start of a daemon,
 * which has the data folder locked and has not begun to place records.
 */
export async function removeUnplaced(sessionsDir: string): Promise<void> {
  for (const name of await namesIn(sessionsDir))
    if (UNPLACED.test(name)) await rm(join(sessionsDir, name), { recursive: true, force: true })
}

/** Leaves of a session that did not start what it said. Without a record the folder is nobody's machine; it goes with the session. */
export async function keepLogAlone(folder: string): Promise<void> {
  for (const name of await readdir(folder)) if (name !== 'logs') await rm(join(folder, name), { recursive: true, force: true })
}

const isOccupied = (error: unknown) =>
  error instanceof Error && 'code' in error && (error.code === 'ENOTEMPTY' || error.code === 'EEXIST')
