// Makes an empty ext4 filesystem in a sparse file, which takes a few hundred KiB on the host whatever its size.
import { execFile } from 'node:child_process'
import { open } from 'node:fs/promises'
import { basename } from 'node:path'
import { promisify } from 'node:util'
import { SandglassError } from '@sandglass/contract/tables'

// Small inode ratio: source trees and node_modules have many small files. No reserved blocks: the disk has no root user to keep them for.
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

/** Runs a program of the host that writes a file. Throws with the last line of its stderr, or HOST_FULL when the disk is full. */
export async function runTool(program: string, args: readonly string[]): Promise<void> {
  try {
    await promisify(execFile)(program, args, { env: { PATH: '/usr/sbin:/usr/bin:/sbin:/bin', LC_ALL: 'C' } })
  } catch (error) {
    if (!(error instanceof Error)) throw error
    const stderr = String((error as { stderr?: unknown }).stderr ?? '').trim()
    if (stderr.includes('No space left on device'))
      throw new SandglassError('HOST_FULL', { what: 'the disk of its data folder is full' }, { cause: error })
    throw new Error(`${basename(program)} failed: ${stderr.split('\n').at(-1) || error.message}`, { cause: error })
  }
}
