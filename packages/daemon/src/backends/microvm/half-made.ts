// What a daemon was making when it was killed. Everything is made under another name first.
import { readdir, rm } from 'node:fs/promises'
import { join } from 'node:path'
import { isMissing } from '../missing-file.ts'
import type { MicrovmPaths } from './paths.ts'

const HALF_MADE = /\.sqfs\.|\.vm\.new$|\.\d+\.new(\.raw)?$/

/** Only for when nothing is being made: before the first machine of the one daemon that has this data folder. */
export async function removeHalfMade(paths: MicrovmPaths): Promise<void> {
  for (const dir of [paths.disks, paths.boot, paths.empty, paths.snapshots])
    for (const name of await readdir(dir).catch(none))
      if (HALF_MADE.test(name)) await rm(join(dir, name), { recursive: true, force: true })
}

function none(error: unknown): string[] {
  if (isMissing(error)) return []
  throw error
}
