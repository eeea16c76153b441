// The boot log of a machine: a file that the backend keeps while the session has its folder.
import { createReadStream } from 'node:fs'
import { open } from 'node:fs/promises'
import type { Readable } from 'node:stream'
import { isMissing } from '../../lib/missing-file.ts'

/** Null when the file is empty or missing. */
export async function openBootLog(path: string): Promise<Readable | null> {
  try {
    const file = await open(path, 'r')
    if ((await file.stat()).size > 0) return createReadStream('', { fd: file })
    await file.close()
  } catch (error) {
    if (!isMissing(error)) throw error
  }
  return null
}
