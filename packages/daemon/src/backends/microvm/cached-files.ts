// Files that the backend makes once and reuses: disks, boot files, snapshots. They are written under a temporary name and removed when unused.
import { randomBytes } from 'node:crypto'
import { existsSync } from 'node:fs'
import { rm } from 'node:fs/promises'
import { join } from 'node:path'
import { namesIn } from '../../lib/missing-file.ts'
import type { MicrovmPaths } from './paths.ts'

/** Cached files that were not used for so long are removed. */
export const UNUSED_MS = 7 * 24 * 3600 * 1000

/** The first group is the pid of the process that writes the file. */
const TEMPORARY = /\.(\d+)\.(new|[A-Za-z0-9]{6})(\.raw)?$/

/** Unique, so that two writers of the same file do not write to one temporary file. */
export const temporaryName = (path: string): string => `${path}.${process.pid}.${randomBytes(3).toString('hex')}`

/**
 * Removes the temporary files of processes that are gone. Call it before this process writes any: files with its own pid are taken for leftovers
 * of an earlier process with the same pid, as happens in containers.
 */
export async function removeTemporaryFiles(paths: MicrovmPaths): Promise<void> {
  for (const dir of [paths.disks, paths.boot, paths.empty, paths.snapshots])
    for (const name of await namesIn(dir))
      if (isAbandoned(TEMPORARY.exec(name)?.[1])) await rm(join(dir, name), { recursive: true, force: true })
}

const isAbandoned = (pid: string | undefined) => pid !== undefined && (Number(pid) === process.pid || !existsSync(`/proc/${pid}`))
