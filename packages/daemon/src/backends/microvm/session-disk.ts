// The disk of one session: an ext4 filesystem whose size is the session's quota, in a file that grows as the session writes.
import { execFile } from 'node:child_process'
import { copyFile, lstat, mkdir, open, rm } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { promisify } from 'node:util'
import { finish } from '../../finish.ts'
import { nullIfMissing } from '../missing-file.ts'
import { unfinished } from './half-made.ts'

const run = promisify(execFile)
export type DiskFormat = 'qcow2' | 'raw'

// Small inode ratio: source trees and node_modules have many small files. No reserve: there is no root of the disk to keep it for.
const FORMAT = ['-q', '-F', '-t', 'ext4', '-m', '0', '-i', '8192', '-J', 'size=4', '-E', 'lazy_itable_init=0,lazy_journal_init=1']

export interface DiskTools {
  readonly mke2fs: string
  /** Null where it is not installed: only raw disks then. */
  readonly qemuImg: string | null
}

export const diskFile = (format: DiskFormat): string => `disk.${format}`

/** Makes disks as copies of empty ones, one per size, which are formatted on first use. */
export class SessionDisks {
  readonly #emptyDir: string
  /** Empty ones that are being looked for or made, by path. */
  readonly #making = new Map<string, Promise<void>>()

  constructor(emptyDir: string) {
    this.#emptyDir = emptyDir
  }

  async create(tools: DiskTools, format: DiskFormat, diskMb: number, target: string): Promise<void> {
    const empty = join(this.#emptyDir, `vm-${diskMb}.${format}`)
    const making = this.#making.get(empty) ?? makeEmpty(empty, tools, format, diskMb).finally(() => this.#making.delete(empty))
    this.#making.set(empty, making)
    await making
    // A copy of a raw one keeps its holes; in a qcow2 file there are none.
    if (format === 'raw') await run('cp', ['--sparse=always', '--', empty, target])
    else await copyFile(empty, target)
  }
}

async function makeEmpty(path: string, tools: DiskTools, format: DiskFormat, diskMb: number): Promise<void> {
  if ((await lstat(path).catch(nullIfMissing)) !== null) return
  await mkdir(dirname(path), { recursive: true, mode: 0o700 })
  const building = unfinished(path)
  const raw = format === 'raw' ? building : `${building}.raw`
  try {
    await makeSparse(raw, diskMb)
    await run(tools.mke2fs, [...FORMAT, raw])
    if (format === 'qcow2') await run(tools.qemuImg ?? 'qemu-img', ['convert', '-f', 'raw', '-O', 'qcow2', raw, building])
    await finish(building, path)
  } finally {
    for (const file of [raw, building]) await rm(file, { force: true })
  }
}

async function makeSparse(path: string, diskMb: number): Promise<void> {
  const file = await open(path, 'w', 0o600)
  try {
    await file.truncate(diskMb * 1024 * 1024)
  } finally {
    await file.close()
  }
}
