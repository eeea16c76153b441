// QEMU's jail: its own root with only programs in it, its own user id, no network, and no view of other processes.
import { existsSync, readFileSync } from 'node:fs'
import { mkdir, readFile, rm } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { launcherBeside } from '../../launcher/program.ts'
import type { VmJob } from '../../launcher/schema.ts'
import { isInitialMap } from '../../machine/mapped-ids.ts'
import type { MicrovmPaths } from '../paths.ts'
import { startSupervised } from './launcher.ts'
import { killAndWait, waitForExit } from './processes.ts'

/** A range of user ids for machines. Each machine gets two: one for QEMU, one for the guest's user in shared folders. */
export interface JailIds {
  readonly first: number
  readonly count: number
  /** False for the sub-ids of an ordinary user. */
  readonly isRoots: boolean
}

/** Below the ids of the oci backend's sessions, and above the ids of people, services and containers. */
const ROOTS_IDS: JailIds = { first: 0x0ff0_0000, count: 65_536, isRoots: true }
/** The oci backend divides a user's sub-ids into blocks of this size. The rest at the end is used here. */
const SMALL_BLOCK = 1024
const MIN_IDS = 64
export const IDS_PER_MACHINE = 2
const PROGRAMS = ['/usr', '/bin', '/sbin', '/lib', '/lib32', '/lib64', '/libx32', '/etc/ld.so.cache']
const DEVICES = ['/dev/null', '/dev/zero', '/dev/urandom']
const TRIAL_ID = 'jail-trial'
const TRIAL_MS = 10_000
/** No core dumps (RLIMIT_CORE) and few open files (RLIMIT_NOFILE). The numbers are the same on x64 and arm64. */
export const QEMU_RLIMITS = [
  { resource: 4, limit: 0 },
  { resource: 7, limit: 1024 },
]

/** The ids that this daemon may use for QEMU; null if it has only its own. */
export function jailIds(): JailIds | null {
  if (process.getuid?.() !== 0) return null
  const map = readFileSync('/proc/self/uid_map', 'utf8')
  if (isInitialMap(map)) return ROOTS_IDS
  const runs = map
    .trim()
    .split('\n')
    .map(line => line.trim().split(/\s+/).map(Number))
    .filter(([inside = 0]) => inside > 0)
  const [first = 0, , size = 0] = runs.toSorted((a, b) => (b[2] ?? 0) - (a[2] ?? 0))[0] ?? []
  // The last id is the egress process's.
  const left = (size % SMALL_BLOCK) - 1
  return left < MIN_IDS ? null : { first: first + size - 1 - left, count: left, isRoots: false }
}

export function jailOf(paths: MicrovmPaths, qemu: string, id: number, withKvm: boolean): VmJob['jail'] {
  const isSystemQemu = PROGRAMS.some(program => qemu.startsWith(`${program}/`))
  return {
    path: paths.jail,
    id,
    // A QEMU outside the usual folders has its libraries and firmware beside it.
    programs: isSystemQemu ? PROGRAMS : [...PROGRAMS, dirname(dirname(qemu))],
    devices: [...DEVICES, ...(withKvm ? ['/dev/kvm'] : [])].filter(existsSync),
  }
}

/** Starts QEMU in a jail. Returns the reason if that fails on this host, else null. */
export async function jailProblem(paths: MicrovmPaths, runnerPath: string, qemu: string, id: number): Promise<string | null> {
  await mkdir(paths.jail, { recursive: true, mode: 0o755 })
  const log = join(paths.run, `${TRIAL_ID}.log`)
  const job: VmJob = {
    argv: [qemu, '--version'],
    files: [],
    sockets: [],
    egress_socket: null,
    bridge: '',
    share_socket: '',
    log,
    log_bytes: 4096,
    jail: jailOf(paths, qemu, id, false),
    groups: [],
    rlimits: QEMU_RLIMITS,
  }
  try {
    const started = await startSupervised(launcherBeside(runnerPath), TRIAL_ID, job)
    const isDone = await waitForExit(started.supervisor, TRIAL_MS)
    if (!isDone) await killAndWait(started.qemu, TRIAL_MS)
    const said = await readFile(log, 'utf8')
    return said.includes('QEMU emulator version') ? null : said.trim()
  } catch (error) {
    if (error instanceof Error) return error.message
    throw error
  } finally {
    await rm(log, { force: true })
  }
}
