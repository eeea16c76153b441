// Every backend keeps a folder per session below the same one. Its config.json names the backend that it belongs to.
import { readdir, readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { z } from 'zod'
import { isMissing } from './missing-file.ts'

const Owned = z.object({ backend: z.string() })

/** Ids of the folders that belong to a backend. One whose record is missing or says nothing belongs to `oci`, which clears up what is unclear. */
export async function sessionFolders(sessionsDir: string, backend: string): Promise<string[]> {
  const ids = await readdir(sessionsDir)
  const owners = await Promise.all(ids.map(id => owner(join(sessionsDir, id, 'config.json'))))
  return ids.filter((_, i) => owners[i] === backend)
}

async function owner(path: string): Promise<string> {
  try {
    return Owned.safeParse(JSON.parse(await readFile(path, 'utf8'))).data?.backend ?? 'oci'
  } catch (error) {
    if (error instanceof SyntaxError || isMissing(error)) return 'oci'
    throw error
  }
}
