// Empty session disks, one per size, that the launcher copies.
import { readdirSync, readFileSync } from 'node:fs'
import { lstat, mkdir, readdir, rm } from 'node:fs/promises'
import { join } from 'node:path'
import { renameDurably } from '../../../lib/durable-rename.ts'
import { isMissing, nullIfMissing } from '../../../lib/missing-file.ts'
import { makeEmptyDisk } from '../../disk/empty-disk.ts'

/** Prefix of the files of spare disks, which a waiting launcher has made for the next session. */
export const SPARE_DISK = 'spare-'

export class EmptyDisks {
  readonly #dir: string
  readonly #mkfs: string
  /** By size in MiB. Concurrent starts with one size share the work. */
  readonly #making = new Map<number, Promise<string>>()

  constructor(dir: string, mkfs: string) {
    this.#dir = dir
    this.#mkfs = mkfs
  }

  /** The disk of the latest start: the next start most likely needs the same size. */
  recent: string | null = null

  /** The path of an empty disk of this size, formatted on first use. */
  async path(diskMb: number): Promise<string> {
    const known = this.#making.get(diskMb) ?? this.#make(diskMb)
    this.#making.set(diskMb, known)
    try {
      this.recent = await known
      return this.recent
    } catch (error) {
      this.#making.delete(diskMb)
      throw error
    }
  }

  /** Removes spare disks that no launcher has attached: those of launchers that were killed. */
  async sweep(): Promise<void> {
    const files = (await readdir(this.#dir)).filter(name => name.startsWith(SPARE_DISK))
    if (files.length === 0) return
    const attached = new Set(readdirSync('/sys/block').map(backingFile))
    for (const name of files) if (!attached.has(join(this.#dir, name))) await rm(join(this.#dir, name), { force: true })
  }

  async #make(diskMb: number): Promise<string> {
    const path = join(this.#dir, `empty-${diskMb}.ext4`)
    if ((await lstat(path).catch(nullIfMissing)) !== null) return path
    await mkdir(this.#dir, { recursive: true, mode: 0o700 })
    const building = `${path}.new`
    try {
      await makeEmptyDisk(this.#mkfs, building, diskMb)
      await renameDurably(building, path)
    } finally {
      await rm(building, { force: true })
    }
    return path
  }
}

/** The file of a loop device; '' for any other device. */
function backingFile(device: string): string {
  try {
    return readFileSync(`/sys/block/${device}/loop/backing_file`, 'utf8').trim()
  } catch (error) {
    if (isMissing(error)) return ''
    throw error
  }
}
