// Empty session disks, one per size, that the launcher copies: an ext4 file takes its few hundred KiB whatever size it shows.
import { execFile } from 'node:child_process'
import { lstat, mkdir, open, rename } from 'node:fs/promises'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { isMissing } from './record.ts'

const run = promisify(execFile)
// Small inode ratio: source trees and node_modules have many small files. No reserve: there is no root of the disk to keep it for.
const FORMAT = [
  '-q',
  '-F',
  '-m',
  '0',
  '-i',
  '8192',
  '-J',
  'size=4',
  '-E',
  'lazy_itable_init=0,lazy_journal_init=1',
  '-O',
  '^metadata_csum_seed',
]

/** The path of an empty disk of this size, formatted on first use. */
export class EmptyDisks {
  readonly #dir: string
  readonly #mkfs: string
  readonly #making = new Map<number, Promise<string>>()

  constructor(dir: string, mkfs: string) {
    this.#dir = dir
    this.#mkfs = mkfs
  }

  async path(diskMb: number): Promise<string> {
    const known = this.#making.get(diskMb) ?? this.#make(diskMb)
    this.#making.set(diskMb, known)
    try {
      return await known
    } catch (error) {
      this.#making.delete(diskMb)
      throw error
    }
  }

  async #make(diskMb: number): Promise<string> {
    const path = join(this.#dir, `empty-${diskMb}.ext4`)
    const found = await lstat(path).catch(error => {
      if (isMissing(error)) return null
      throw error
    })
    if (found !== null) return path
    await mkdir(this.#dir, { recursive: true, mode: 0o700 })
    const building = `${path}.new`
    const file = await open(building, 'w', 0o600)
    try {
      await file.truncate(diskMb * 1024 * 1024)
    } finally {
      await file.close()
    }
    await run(this.#mkfs, [...FORMAT, building])
    await rename(building, path)
    return path
  }
}
