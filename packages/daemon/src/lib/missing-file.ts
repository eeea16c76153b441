// Files and processes that may not be there.
import { readdir } from 'node:fs/promises'

/** True for the error of a file or process that is not there. */
export function isMissing(error: unknown): boolean {
  return (
    error instanceof Error && 'code' in error && (error.code === 'ENOENT' || error.code === 'ESRCH' || error.code === 'ENOTDIR')
  )
}

/** A catch handler: null if the file or process is missing; rethrows any other error. */
export function nullIfMissing(error: unknown): null {
  if (isMissing(error)) return null
  throw error
}

/** The names in a folder; none where it is not there. */
export async function namesIn(dir: string): Promise<string[]> {
  return (await readdir(dir).catch(nullIfMissing)) ?? []
}
