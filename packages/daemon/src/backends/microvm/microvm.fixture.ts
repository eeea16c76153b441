// Data folders for tests. They share the files that take long to make: the disk of the host's programs, and snapshots.

import { existsSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { NO_OVERCOMMIT } from '../../data-dir/disk-policy.ts'
import type { Backend } from '../backend.ts'
import { type HostProcess, hostProcesses } from '../conformance/host-view.ts'
import { specOf, until } from '../conformance/subject.ts'
import { openMicrovm } from './backend.ts'
import { WAITING_LINE } from './boot/guest-console.ts'
import type { MicrovmOptions } from './probe.ts'
import { guestMemoryMb } from './qemu/command-line.ts'

const root = fileURLToPath(new URL('../../../../../', import.meta.url))
const shared = join(root, '.cache', 'microvm', 'images')
const WAIT_MS = 300_000

/** The options of a backend with a new data folder, whose disks and snapshot are ready. */
export async function testMicrovm(changes: Partial<MicrovmOptions> = {}): Promise<MicrovmOptions> {
  const dataDir = mkdtempSync(join(tmpdir(), 'sandglass-vm-'))
  mkdirSync(shared, { recursive: true })
  symlinkSync(shared, join(dataDir, 'images'))
  const options: MicrovmOptions = {
    dataDir,
    runnerPath: join(root, 'runner', 'bin', 'runner'),
    qemu: 'auto',
    kernel: 'auto',
    accel: 'auto',
    shareProto: 'virtiofs',
    diskFormat: 'qcow2',
    bridge: null,
    extraArgs: [],
    disk: NO_OVERCOMMIT,
    ...changes,
  }
  await oneAtATime(async () => {
    const backend = openMicrovm(options)
    await backend.prepare({ image: { kind: 'host' }, trust: null }, AbortSignal.timeout(WAIT_MS))
    await withSnapshot(backend, options)
  })
  return options
}

/** Removes a data folder. First it ends the machine of a snapshot that is being made there. */
export async function removeTestMicrovm(options: MicrovmOptions): Promise<void> {
  await openMicrovm(options).recover()
  // The supervisor of a machine that was killed may still write its log there.
  rmSync(options.dataDir, { recursive: true, force: true, maxRetries: 10 })
}

/** Waits for the process of which a snapshot with this memory size is made. */
export async function snapshotMachine(memoryMb: number): Promise<HostProcess> {
  const memory = ` -m ${guestMemoryMb(memoryMb)} `
  const found = () => hostProcesses().find(({ argv }) => argv.includes(' -name snapshot-') && argv.includes(memory))
  await until('a machine for a snapshot', () => found() !== undefined, 150_000)
  return found() ?? { pid: 0, uid: 0, argv: '' }
}

/** Makes sure that there is a snapshot for the machines of most tests. */
async function withSnapshot(backend: Backend, { dataDir }: MicrovmOptions): Promise<void> {
  const snapshots = () => (existsSync(join(shared, 'snapshots')) ? readdirSync(join(shared, 'snapshots')) : [])
  const before = new Set(snapshots())
  const machine = await backend.start(specOf({ allowUnenforced: [] }), AbortSignal.timeout(WAIT_MS))
  const log = readFileSync(join(dataDir, 'sessions', machine.id, 'logs', 'boot.log'), 'utf8')
  await machine.destroy()
  if (log.includes(WAITING_LINE))
    await until('a snapshot', () => snapshots().some(name => name.endsWith('.vm') && !before.has(name)), WAIT_MS)
}

/** A lock between processes: each test file runs in its own, and would make the same files. */
async function oneAtATime(work: () => Promise<void>): Promise<void> {
  const lock = join(shared, 'lock')
  await until('the lock of the shared folder', () => take(lock), WAIT_MS)
  try {
    await work()
  } finally {
    rmSync(lock)
  }
}

/** Takes the lock; removes one whose owner is dead. */
function take(lock: string): boolean {
  try {
    writeFileSync(lock, String(process.pid), { flag: 'wx' })
    return true
  } catch {
    const owner = ownerOf(lock)
    if (owner !== null && !existsSync(`/proc/${owner}`)) rmSync(lock, { force: true })
    return false
  }
}

/** Null for a lock that is given back meanwhile. */
function ownerOf(lock: string): string | null {
  try {
    return readFileSync(lock, 'utf8')
  } catch {
    return null
  }
}
