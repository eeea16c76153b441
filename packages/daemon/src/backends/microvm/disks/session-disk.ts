// The disk of one session: an ext4 filesystem with the size of the session's quota, in a file that grows with the data.
import { copyFile, lstat, mkdir, rm } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { renameDurably } from '../../../lib/durable-rename.ts'
import { nullIfMissing } from '../../../lib/missing-file.ts'
import { makeEmptyDisk, runTool } from '../../disk/empty-disk.ts'
import { temporaryName } from '../cached-files.ts'

export type DiskFormat = 'qcow2' | 'raw'

export interface DiskTools {
  readonly mke2fs: string
  /** Null if it is not installed: then only raw disks can be made. */
  readonly qemuImg: string | null
}

export const diskFile = (format: DiskFormat): string => `disk.${format}`

/** Makes disks by copying empty ones. There is one empty disk per size, formatted on first use. */
export class SessionDisks {
  readonly #emptyDir: string
  /** Empty disks that are being made, by path. */
  readonly #making = new Map<string, Promise<void>>()

  constructor(emptyDir: string) {
    this.#emptyDir = emptyDir
  }

  async create(tools: DiskTools, format: DiskFormat, diskMb: number, target: string): Promise<void> {
    const empty = join(this.#emptyDir, `vm-${diskMb}.${format}`)
    const making = this.#making.get(empty) ?? makeEmpty(empty, tools, format, diskMb).finally(() => this.#making.delete(empty))
    this.#making.set(empty, making)
    await making
    // A raw disk is copied with its holes; a qcow2 file has none.
    if (format === 'raw') await runTool('cp', ['--sparse=always', '--', empty, target])
    else await copyFile(empty, target)
  }
}

async function makeEmpty(path: string, tools: DiskTools, format: DiskFormat, diskMb: number): Promise<void> {
  if ((await lstat(path).catch(nullIfMissing)) !== null) return
  await mkdir(dirname(path), { recursive: true, mode: 0o700 })
  const building = temporaryName(path)
  const raw = format === 'raw' ? building : `${building}.raw`
  try {
    await makeEmptyDisk(tools.mke2fs, raw, diskMb)
    if (format === 'qcow2') await runTool(tools.qemuImg ?? 'qemu-img', ['convert', '-f', 'raw', '-O', 'qcow2', raw, building])
    await renameDurably(building, path)
  } finally {
    for (const file of [raw, building]) await rm(file, { force: true })
  }
}
