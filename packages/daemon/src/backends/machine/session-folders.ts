// The folders of sessions. All backends use the same parent folder; config.json in each names the backend that it belongs to.
import { randomBytes } from 'node:crypto'
import { mkdir, readdir, rename, rm } from 'node:fs/promises'
import { join } from 'node:path'
import { z } from 'zod'
import { readJson, writeJson } from '../../lib/json-file.ts'
import { namesIn } from '../../lib/missing-file.ts'

const Owned = z.object({ backend: z.string() })
const UNPLACED = /\.[0-9a-f]{8}\.new$/

/** Ids of the folders that belong to a backend. A folder without a readable record belongs to `oci`, which removes leftovers. */
export async function sessionFolders(sessionsDir: string, backend: string): Promise<string[]> {
  const ids = await readdir(sessionsDir)
  const owners = await Promise.all(ids.map(id => readJson(join(sessionsDir, id, 'config.json'), Owned)))
  return ids.filter((_, i) => (owners[i]?.backend ?? 'oci') === backend)
}

/** Writes the record. A new folder is renamed into place with its record, so that it is never taken for a leftover. */
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
 * Removes the folders of placeRecord calls that were interrupted by a kill. SECURITY: their records contain tokens of runners. Only for the start of
 * a daemon, which has locked the data folder and has not placed a record yet.
 */
export async function removeUnplaced(sessionsDir: string): Promise<void> {
  for (const name of await namesIn(sessionsDir))
    if (UNPLACED.test(name)) await rm(join(sessionsDir, name), { recursive: true, force: true })
}

/** Removes everything but the logs from the folder of a session that did not start. The folder is removed with the session. */
export async function keepLogAlone(folder: string): Promise<void> {
  for (const name of await readdir(folder)) if (name !== 'logs') await rm(join(folder, name), { recursive: true, force: true })
}

const isOccupied = (error: unknown) =>
  error instanceof Error && 'code' in error && (error.code === 'ENOTEMPTY' || error.code === 'EEXIST')
