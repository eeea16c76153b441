// Root filesystems and runners of earlier states of the host and of earlier versions: nobody starts from them again.
import { readdir, rm } from 'node:fs/promises'
import { basename, dirname, join } from 'node:path'
import type { MachineRecord } from '../record.ts'

const OURS = /^(host|runner)-(v2-)?[0-9a-f]{16}(\.[0-9a-f]+\.new)?$/

/** The name below images/ of what a machine's runner is in. */
export function runnerName(runnerFile: string): string {
  return basename(dirname(runnerFile))
}

/** Removes what neither a machine was started with nor the next one will be. */
export async function pruneImages(
  imagesDir: string,
  current: readonly string[],
  records: readonly MachineRecord[],
): Promise<void> {
  const used = new Set([...current, ...records.flatMap(({ rootfs, runner }) => [rootfs, runner ?? ''])])
  // A record of an earlier version does not tell which runner it has.
  const keepsRunners = records.some(({ runner }) => runner === undefined)
  for (const name of await readdir(imagesDir)) {
    if (!OURS.test(name) || used.has(name) || (keepsRunners && name.startsWith('runner-'))) continue
    await rm(join(imagesDir, name), { recursive: true, force: true })
  }
}
