// config.json of a session's folder, mode 0600: what the next daemon needs to find and speak to the machine.
// SECURITY: it holds the token. A session's environment is in no file: it goes to the runner on its stdin.
import { randomBytes } from 'node:crypto'
import { mkdir, readFile, rename, rm, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { z } from 'zod'
import { isMissing } from '../missing-file.ts'

const DockerRecord = z.object({
  backend: z.literal('docker'),
  version: z.literal(1),
  id: z.string(),
  name: z.string(),
  token: z.string(),
  /** The image as the user named it. */
  image: z.string(),
  unenforced: z.array(z.enum(['cpu', 'memory', 'pids', 'disk'])),
})
export type DockerRecord = z.infer<typeof DockerRecord>

/** A new folder appears with its record in it, so that nobody takes it for a leftover of another backend. */
export async function writeRecord(folder: string, record: DockerRecord): Promise<void> {
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

export async function readRecord(folder: string): Promise<DockerRecord | null> {
  try {
    return DockerRecord.safeParse(JSON.parse(await readFile(join(folder, 'config.json'), 'utf8'))).data ?? null
  } catch (error) {
    if (isMissing(error) || error instanceof SyntaxError) return null
    throw error
  }
}

const isOccupied = (error: unknown) =>
  error instanceof Error && 'code' in error && (error.code === 'ENOTEMPTY' || error.code === 'EEXIST')
