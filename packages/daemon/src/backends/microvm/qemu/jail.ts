// How QEMU is shut in: a root of its own with nothing but programs in it, ids that nobody else has, no network, no sight of other processes.
import { existsSync, readFileSync } from 'node:fs'
import { mkdir, readFile, rm } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import type { MicrovmPaths } from '../paths.ts'
import { startKept, type VmJob } from './launcher.ts'
import { end, gone } from './processes.ts'

/** Ids for machines, two each: QEMU's, and the one that stands for the machine's user in shared folders. */
export interface JailIds {
  readonly first: number
  readonly count: number
  /** False for the sub-ids of an ordinary user. */
  readonly isRoots: boolean
}

/** Below those of the native backend's sessions, and above what is given to people, services and containers. */
const ROOTS_IDS: JailIds = { first: 0x0ff0_0000, count: 65_536, isRoots: true }
/** An ordinary user's sub-ids are cut into blocks of this size from the first on; what is left at the end is nobody's. */
const SMALL_BLOCK = 1024
const LEAST_IDS = 64
export const IDS_PER_MACHINE = 2
const PROGRAMS = ['/usr', '/bin', '/sbin', '/lib', '/lib32', '/lib64', '/libx32', '/etc/ld.so.cache']
const DEVICES = ['/dev/null', '/dev/zero', '/dev/urandom']
const TRIAL_ID = 'jail-trial'
const TRIAL_MS = 10_000
/** The kernel's numbers, the same on x64 and arm64: no core dumps, and few open files. */
export const QEMU_RLIMITS = [
  { resource: 4, limit: 0 },
  { resource: 7, limit: 1024 },
]

/** The ids that this daemon may give to QEMU; null where it has none but its own. */
export function jailIds(): JailIds | null {
  if (process.getuid?.() !== 0) return null
  const map = readFileSync('/proc/self/uid_map', 'utf8')
  if (/^\s*0\s+0\s+4294967295\s*$/.test(map)) return ROOTS_IDS
  const runs = map
    .trim()
    .split('\n')
    .map(line => line.trim().split(/\s+/).map(Number))
    .filter(([inside = 0]) => inside > 0)
  const [first = 0, , size = 0] = runs.toSorted((a, b) => (b[2] ?? 0) - (a[2] ?? 0))[0] ?? []
  const left = size % SMALL_BLOCK
  return left < LEAST_IDS ? null : { first: first + size - left, count: left, isRoots: false }
}

export function jailOf(paths: MicrovmPaths, qemu: string, id: number, withKvm: boolean): VmJob['jail'] {
  const isUsual = PROGRAMS.some(program => qemu.startsWith(`${program}/`))
  return {
    path: paths.jail,
    id,
    // One that was installed elsewhere has its libraries and firmware beside it.
    programs: isUsual ? PROGRAMS : [...PROGRAMS, dirname(dirname(qemu))],
    devices: [...DEVICES, ...(withKvm ? ['/dev/kvm'] : [])].filter(existsSync),
  }
}

/** Starts QEMU in a jail to see whether that works here. Why not, or null. */
export async function jailProblem(paths: MicrovmPaths, runnerPath: string, qemu: string, id: number): Promise<string | null> {
  await mkdir(paths.jail, { recursive: true, mode: 0o755 })
  const log = join(paths.run, `${TRIAL_ID}.log`)
  const job: VmJob = {
    argv: [qemu, '--version'],
    files: [],
    sockets: [],
    bridge: '',
    share_socket: '',
    log,
    log_bytes: 4096,
    jail: jailOf(paths, qemu, id, false),
    groups: [],
    rlimits: QEMU_RLIMITS,
  }
  try {
    const kept = await startKept(runnerPath, TRIAL_ID, job)
    const isDone = await gone(kept.keeper, TRIAL_MS)
    if (!isDone) await end(kept.qemu, TRIAL_MS)
    const said = await readFile(log, 'utf8')
    return said.includes('QEMU emulator version') ? null : said.trim()
  } catch (error) {
    if (error instanceof Error) return error.message
    throw error
  } finally {
    await rm(log, { force: true })
  }
}
