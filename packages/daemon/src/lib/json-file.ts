// Small files of JSON that the next daemon reads, mode 0600. After a crash of the daemon a file is complete or absent. After a power cut it
// may be damaged, because nothing is synced: a start of a session does not wait for the disk.
import { readFileSync } from 'node:fs'
import { readFile, rename, writeFile } from 'node:fs/promises'
import type { z } from 'zod'
import { isMissing } from './missing-file.ts'

/** Null if the file is missing or damaged, or does not match the schema. */
export async function readJson<T>(path: string, schema: z.ZodType<T>): Promise<T | null> {
  try {
    return schema.safeParse(JSON.parse(await readFile(path, 'utf8'))).data ?? null
  } catch (error) {
    return noneOf(error)
  }
}

/** The same, at once. */
export function readJsonSync<T>(path: string, schema: z.ZodType<T>): T | null {
  try {
    return schema.safeParse(JSON.parse(readFileSync(path, 'utf8'))).data ?? null
  } catch (error) {
    return noneOf(error)
  }
}

export const writeJson = (path: string, value: object): Promise<void> => writeText(path, JSON.stringify(value))

/** `text` is JSON already. */
export async function writeText(path: string, text: string): Promise<void> {
  await writeFile(`${path}.new`, text, { mode: 0o600 })
  await rename(`${path}.new`, path)
}

function noneOf(error: unknown): null {
  if (isMissing(error) || error instanceof SyntaxError) return null
  throw error
}
