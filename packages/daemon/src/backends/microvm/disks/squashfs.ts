// Makes read-only squashfs disks from folders of the host.
import { type ChildProcess, spawn } from 'node:child_process'
import { chmod, lstat, mkdir, readFile, rm } from 'node:fs/promises'
import { dirname } from 'node:path'
import { renameDurably } from '../../../lib/durable-rename.ts'
import { isMissing } from '../../../lib/missing-file.ts'
import { temporaryName } from '../cached-files.ts'
import type { SpareSpace } from './spare-space.ts'

/** Fast to write, and cheap to read for an emulated processor. */
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
  readonly space: SpareSpace
}

export const inMib = (bytes: number): number => Math.round(bytes / 1024 ** 2)

/** Each source appears under its own name. Calls `onRead` now and then with the bytes read. The target appears when it is complete. */
export async function makeSquashfs(
  { mksquashfs, space }: SquashfsTools,
  sources: readonly string[],
  target: string,
  more: readonly string[],
  signal: AbortSignal,
  onRead: (bytes: number) => void = () => undefined,
): Promise<void> {
  if (await exists(target)) return
  await mkdir(dirname(target), { recursive: true, mode: 0o700 })
  const building = temporaryName(target)
  const args = [...sources, building, ...OPTIONS, ...MEMORY, ...COMPRESSION, ...more]
  try {
    await space.write('a disk of its image', full => write(mksquashfs, args, AbortSignal.any([signal, full]), onRead))
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
    // After SIGTERM mksquashfs would remove its output file, which may belong to the next run by then.
    killSignal: 'SIGKILL',
    env: { PATH: '/usr/bin:/bin' },
  })
  const report = setInterval(() => {
    // Without a terminal mksquashfs shows no progress, so the bytes that it has read are taken from /proc.
    readFile(`/proc/${child.pid}/io`, 'utf8').then(
      io => onRead(Number(/^rchar: (\d+)/m.exec(io)?.[1] ?? 0)),
      () => undefined, // the process has exited
    )
  }, REPORT_MS)
  try {
    await ended(child)
  } finally {
    clearInterval(report)
  }
}

function ended(child: ChildProcess): Promise<void> {
  let stderr = ''
  child.stderr?.setEncoding('utf8').on('data', (text: string) => {
    stderr = (stderr + text).slice(-2000)
  })
  return new Promise((resolve, reject) => {
    let failure: Error | undefined
    child.once('error', error => {
      // A killed process still runs for a moment: wait for its close event.
      if (child.pid === undefined) reject(error)
      failure = error
    })
    child.once('close', code => (code === 0 ? resolve() : reject(failure ?? new Error(`mksquashfs failed: ${stderr}`))))
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
