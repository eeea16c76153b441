// An empty disk in a file, which takes its few hundred KiB whatever size it shows.
import { open } from 'node:fs/promises'
import { runTool } from './run-tool.ts'

// Small inode ratio: source trees and node_modules have many small files. No reserve: there is no root of the disk to keep it for.
const FORMAT = [
  ...['-q', '-F', '-t', 'ext4', '-m', '0', '-i', '8192', '-J', 'size=4'],
  ...['-E', 'lazy_itable_init=0,lazy_journal_init=1', '-O', '^metadata_csum_seed'],
]

export async function makeEmptyDisk(mke2fs: string, path: string, diskMb: number): Promise<void> {
  const file = await open(path, 'w', 0o600)
  try {
    await file.truncate(diskMb * 1024 * 1024)
  } finally {
    await file.close()
  }
  await runTool(mke2fs, [...FORMAT, path])
}
