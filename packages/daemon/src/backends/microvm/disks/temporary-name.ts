// What is made under another name first, which tells the process that makes it, and what is left of that when a daemon is killed.
import { randomBytes } from 'node:crypto'
import { existsSync } from 'node:fs'
import { rm } from 'node:fs/promises'
import { join } from 'node:path'
import { namesIn } from '../../../lib/missing-file.ts'
import type { MicrovmPaths } from '../paths.ts'

const HALF_MADE = /\.(\d+)\.(new|[A-Za-z0-9]{6})(\.raw)?$/

/** A name to make a file under, another one each time: two who make the same do not write to one file. */
export const unfinished = (path: string): string => `${path}.${process.pid}.${randomBytes(3).toString('hex')}`

/** Only for when this process makes nothing yet: what bears its number is an earlier one's, in a container for one. */
export async function removeHalfMade(paths: MicrovmPaths): Promise<void> {
  for (const dir of [paths.disks, paths.boot, paths.empty, paths.snapshots])
    for (const name of await namesIn(dir))
      if (isNobodys(HALF_MADE.exec(name)?.[1])) await rm(join(dir, name), { recursive: true, force: true })
}

const isNobodys = (pid: string | undefined) => pid !== undefined && (Number(pid) === process.pid || !existsSync(`/proc/${pid}`))
