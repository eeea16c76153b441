// Makes read-only disks from folders of the host.
import { type ChildProcess, spawn } from 'node:child_process'
import { chmod, lstat, mkdir, readFile, rm } from 'node:fs/promises'
import { dirname } from 'node:path'
import { renameDurably } from '../../../lib/durable-rename.ts'
import { isMissing } from '../../../lib/missing-file.ts'
import type { SpareRoom } from './spare-space.ts'
import { unfinished } from './temporary-name.ts'

/** Fast to make, and cheap to read for a processor that is emulated. */
export const COMPRESSION = ['-comp', 'lz4', '-noI', '-b', '128K']
const OPTIONS = [
  '-keep-as-directory',
  '-noappend',
  '-no-progress',
  '-quiet',
  '-no-recovery',
  '-no-xattrs',
  '-no-duplicates',
  '-all-root',
  '-root-mode',
  '755',
]
const MEMORY = ['-mem', '512M']
export const REPORT_MS = 3000

export interface SquashfsTools {
  readonly mksquashfs: string
  readonly room: SpareRoom
}

export const inMib = (bytes: number): number => Math.round(bytes / 1024 ** 2)

/** Each source appears under its own name. `onRead` is told now and then how many bytes of them were read. The file is there when it is whole. */
export async function makeSquashfs(
  { mksquashfs, room }: SquashfsTools,
  sources: readonly string[],
  target: string,
  more: readonly string[],
  signal: AbortSignal,
  onRead: (bytes: number) => void = () => undefined,
): Promise<void> {
  if (await exists(target)) return
  await mkdir(dirname(target), { recursive: true, mode: 0o700 })
  const building = unfinished(target)
  const args = [...sources, building, ...OPTIONS, ...MEMORY, ...COMPRESSION, ...more]
  try {
    await room.take('a disk of its image', full => write(mksquashfs, args, AbortSignal.any([signal, full]), onRead))
    await chmod(building, 0o644)
    await renameDurably(building, target)
  } finally {
    await rm(building, { force: true })
  }
}

async function write(
  mksquashfs: string,
  args: readonly string[],
  signal: AbortSignal,
  onRead: (bytes: number) => void,
): Promise<void> {
  const child = spawn(mksquashfs, args, {
    stdio: ['ignore', 'ignore', 'pipe'],
    signal,
    // Asked kindly it removes its file itself, which may be that of the next one by then.
    killSignal: 'SIGKILL',
    env: { PATH: '/usr/bin:/bin' },
  })
  const report = setInterval(() => {
    // Its own progress bar stands still where no terminal is.
    readFile(`/proc/${child.pid}/io`, 'utf8').then(
      io => onRead(Number(/^rchar: (\d+)/m.exec(io)?.[1] ?? 0)),
      () => undefined, // it has just ended
    )
  }, REPORT_MS)
  try {
    await ended(child)
  } finally {
    clearInterval(report)
  }
}

function ended(child: ChildProcess): Promise<void> {
  let complaint = ''
  child.stderr?.setEncoding('utf8').on('data', (text: string) => {
    complaint = (complaint + text).slice(-2000)
  })
  return new Promise((resolve, reject) => {
    let failure: Error | undefined
    child.once('error', error => {
      // One that was ended still runs for a moment.
      if (child.pid === undefined) reject(error)
      failure = error
    })
    child.once('close', code => (code === 0 ? resolve() : reject(failure ?? new Error(`mksquashfs failed: ${complaint}`))))
  })
}

async function exists(path: string): Promise<boolean> {
  try {
    await lstat(path)
    return true
  } catch (error) {
    if (isMissing(error)) return false
    throw error
  }
}
