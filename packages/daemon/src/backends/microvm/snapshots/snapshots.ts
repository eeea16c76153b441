// Memory snapshots of booted machines that wait for a session, one per shape. A start from a snapshot takes a fraction of a boot.
// SECURITY: a snapshot is taken before the machine gets any data of a session and before it has run any program of a user.
import { execFile } from 'node:child_process'
import { createHash } from 'node:crypto'
import { existsSync } from 'node:fs'
import { mkdir, readFile, rm, stat, utimes } from 'node:fs/promises'
import { cpus, release } from 'node:os'
import { join } from 'node:path'
import { setTimeout as delay } from 'node:timers/promises'
import { renameDurably } from '../../../lib/durable-rename.ts'
import { isMissing, namesIn } from '../../../lib/missing-file.ts'
import { launcherBeside } from '../../launcher/program.ts'
import type { SnapshotJob } from '../../launcher/schema.ts'
import { isAlive } from '../../machine/process-state.ts'
import { WAITING_LINE } from '../boot/guest-console.ts'
import { temporaryName, UNUSED_MS } from '../cached-files.ts'
import type { PackageDisk } from '../disks/package-disks.ts'
import { type DiskFormat, diskFile, type SessionDisks } from '../disks/session-disk.ts'
import type { SpareSpace } from '../disks/spare-space.ts'
import type { MicrovmPaths } from '../paths.ts'
import type { Host } from '../probe.ts'
import type { MachineGroups } from '../qemu/cgroups.ts'
import { guestMemoryMb } from '../qemu/command-line.ts'
import { type Supervised, startSupervised } from '../qemu/launcher.ts'
import type { MachineIds } from '../qemu/machine-ids.ts'
import { killAndWait, processesOf, waitForExit } from '../qemu/processes.ts'
import { vmJob } from '../qemu/vm-job.ts'

const MAX_SNAPSHOTS = 8
const MAX_BYTES = 4 * 1024 ** 3
const BOOT_DEADLINE_MS = 180_000
const WRITE_DEADLINE_MS = 60_000
const KILL_DEADLINE_MS = 10_000
const POLL_MS = 20
/** Snapshots are made after this pause, so that they do not slow down the session that was just started. */
const PAUSE_MS = 10_000
const FOLDER = /^snapshot-([0-9a-f]{16})$/

/** Everything that decides the state of a machine that waits for a session. Machines of one shape can start from one snapshot. */
export interface Shape {
  /** File names of the image's disk and of the overlay layer's disk. */
  readonly imageDisk: string
  readonly overlayDisk: string
  /** Modification times of the disks: the same image may get another layout, and a snapshot has cached the positions of its files. */
  readonly disksMadeMs: readonly number[]
  readonly layers: number
  readonly packages: readonly PackageDisk[]
  readonly memoryMb: number
  readonly vcpus: number
  readonly diskMb: number
  readonly diskFormat: DiskFormat
  readonly nestedVirt: boolean
  readonly egress: boolean
  /** Module sets in addition to the base set. */
  readonly modules: readonly string[]
  readonly extraArgs: readonly string[]
}

export class Snapshots {
  readonly #paths: MicrovmPaths
  readonly #launcherPath: string
  readonly #ids: MachineIds
  readonly #disks: SessionDisks
  readonly #space: SpareSpace
  /** Keys of snapshots that were requested. */
  readonly #requested = new Set<string>()
  #work: Promise<unknown> = Promise.resolve()
  #group: string | null = null
  #isClosed = false

  constructor(paths: MicrovmPaths, runnerPath: string, ids: MachineIds, disks: SessionDisks, space: SpareSpace) {
    this.#paths = paths
    this.#launcherPath = launcherBeside(runnerPath)
    this.#ids = ids
    this.#disks = disks
    this.#space = space
  }

  /** Name of the cgroups of the machine whose snapshot is being made. */
  get group(): string | null {
    return this.#group
  }

  /**
   * Ends the machines of unfinished snapshots of a killed daemon. Their supervisors may be gone too, so nothing else would end them. `groups` is
   * called only if there are some.
   */
  async endLeftovers(groups: () => MachineGroups | null): Promise<void> {
    const names = await namesIn(this.#paths.run)
    for (const key of names.flatMap(name => FOLDER.exec(name)?.[1] ?? [])) {
      await this.#killAndWait(groups(), key)
      await rm(this.#folder(key), { recursive: true, force: true })
    }
  }

  /** The snapshot file for this shape, or null if there is none. */
  async find(host: Host, shape: Shape): Promise<string | null> {
    const key = shapeKey(shape, host)
    try {
      const now = new Date()
      // The modification time is the time of last use, which prune() reads.
      await utimes(this.#file(key), now, now)
      return this.#file(key)
    } catch (error) {
      if (!isMissing(error)) throw error
      // A removed snapshot may be requested again.
      this.#requested.delete(key)
      return null
    }
  }

  /** Removes a snapshot from which a machine did not start. */
  async remove(host: Host, shape: Shape): Promise<void> {
    const key = shapeKey(shape, host)
    this.#requested.delete(key)
    await rm(this.#file(key), { force: true })
  }

  /** Makes a snapshot in the background, one after another. If that fails, machines boot without one. */
  request(host: Host, shape: Shape): void {
    const key = shapeKey(shape, host)
    if (this.#requested.has(key)) return
    this.#requested.add(key)
    setTimeout(() => {
      this.#work = this.#work.then(() => this.#make(host, shape, key)).catch(() => this.#requested.delete(key))
    }, PAUSE_MS).unref()
  }

  /** Aborts the snapshot that is being made. */
  async close(): Promise<void> {
    this.#isClosed = true
    if (this.#group !== null) for (const left of processesOf(this.#id(this.#group))) await killAndWait(left, KILL_DEADLINE_MS)
    await this.#work
  }

  async #make(host: Host, shape: Shape, key: string): Promise<void> {
    if (this.#isClosed || existsSync(this.#file(key))) return
    // The image or a package may have been removed since the request.
    const disks = [shape.imageDisk, shape.overlayDisk, ...shape.packages.map(({ disk }) => disk)]
    if (disks.some(name => !existsSync(join(this.#paths.disks, name)))) return
    // A snapshot is at most as large as the machine's memory.
    const maxBytes = guestMemoryMb(shape.memoryMb) * 1024 * 1024
    await this.#space.require('a snapshot', maxBytes)
    const [id, path, folder] = [this.#id(key), this.#file(key), this.#folder(key)]
    await rm(folder, { recursive: true, force: true })
    await mkdir(folder, { recursive: true, mode: 0o700 })
    await mkdir(this.#paths.snapshots, { recursive: true, mode: 0o700 })
    const [disk, log, building] = [join(folder, diskFile(shape.diskFormat)), join(folder, 'boot.log'), temporaryName(path)]
    const sockets = {
      monitor: join(folder, 'm'),
      control: join(folder, 'c'),
      carrier: join(folder, 'r'),
      egress: join(folder, 'e'),
      share: join(folder, 's'),
    }
    let started: Supervised | null = null
    this.#group = key
    try {
      await this.#disks.create(host.disks, shape.diskFormat, shape.diskMb, disk)
      const input = {
        id,
        shape,
        disk,
        durable: false,
        sockets,
        log,
        readAhead: true,
        snapshot: null,
        jailId: host.jailIds === null ? null : this.#ids.claim(id, host.jailIds, []),
        groups: host.groups?.enter(key, { cpuCores: shape.vcpus, memoryMb: shape.memoryMb }) ?? [],
        bridge: '',
        mounts: [],
        shareProto: 'virtiofs' as const,
      }
      started = await startSupervised(this.#launcherPath, id, vmJob(host, this.#paths, input))
      await this.#waitUntilReady(started, log)
      await this.#space.write('a snapshot', full => this.#write(sockets.monitor, building, full), maxBytes)
      await endSupervised(started)
      await renameDurably(building, path)
      await this.prune()
    } finally {
      if (started !== null) await endSupervised(started)
      await this.#killAndWait(host.groups, key)
      this.#group = null
      this.#ids.release(id)
      await rm(folder, { recursive: true, force: true })
      await rm(building, { force: true })
    }
  }

  /** The caller removes the machine's folder afterwards, so that a failed end is tried again. */
  async #killAndWait(groups: MachineGroups | null, key: string): Promise<void> {
    for (const left of processesOf(this.#id(key))) await killAndWait(left, KILL_DEADLINE_MS)
    await groups?.remove(key)
  }

  async #waitUntilReady({ qemu }: Supervised, log: string): Promise<void> {
    const deadline = Date.now() + BOOT_DEADLINE_MS
    while (!(await readFile(log, 'latin1')).includes(WAITING_LINE)) {
      if (!isAlive(qemu) || this.#isClosed || Date.now() > deadline) throw new Error('the machine for a snapshot did not boot')
      await delay(POLL_MS)
    }
  }

  async #write(monitor: string, file: string, full: AbortSignal): Promise<void> {
    const job: SnapshotJob = { monitor, file, deadline_ms: WRITE_DEADLINE_MS }
    await new Promise<void>((resolve, reject) => {
      const child = execFile(this.#launcherPath, ['snapshot'], { env: {}, signal: full }, (error, _, stderr) =>
        error === null ? resolve() : reject(new Error(`snapshot failed: ${stderr}`, { cause: error })),
      )
      child.stdin?.on('error', () => undefined) // the exit status is reported instead
      child.stdin?.end(`${JSON.stringify(job)}\n`)
    })
  }

  /** Keeps the most recently used snapshots within the limits. */
  async prune(): Promise<void> {
    const whole = (await namesIn(this.#paths.snapshots)).filter(name => name.endsWith('.vm'))
    const files = await Promise.all(
      whole.map(async name => {
        const path = join(this.#paths.snapshots, name)
        const { mtimeMs, size } = await stat(path)
        return { path, mtimeMs, size }
      }),
    )
    let [count, bytes] = [0, 0]
    for (const { path, size, mtimeMs } of files.toSorted((a, b) => b.mtimeMs - a.mtimeMs)) {
      count += 1
      bytes += size
      const isUnused = Date.now() - mtimeMs > UNUSED_MS
      if (isUnused || count > MAX_SNAPSHOTS || (count > 1 && bytes > MAX_BYTES)) await rm(path, { force: true })
    }
  }

  #file(key: string): string {
    return join(this.#paths.snapshots, `${key}.vm`)
  }

  #folder(key: string): string {
    return join(this.#paths.run, `snapshot-${key}`)
  }

  /** Processes are found by this id. It includes the data folder, because other daemons on this host have the same shapes. */
  #id(key: string): string {
    const owner = createHash('sha256').update(this.#paths.dataDir).digest('hex').slice(0, 8)
    return `snapshot-${owner}-${key}`
  }
}

function shapeKey(shape: Shape, host: Host): string {
  const { qemu, qemuVersion, accel, tscKhz, boot } = host
  const machine = [release(), cpus()[0]?.model, qemu, qemuVersion, accel, tscKhz, boot.digest]
  return createHash('sha256')
    .update(JSON.stringify([machine, shape]))
    .digest('hex')
    .slice(0, 16)
}

async function endSupervised({ qemu, supervisor }: Supervised): Promise<void> {
  await killAndWait(qemu, KILL_DEADLINE_MS)
  await waitForExit(supervisor, KILL_DEADLINE_MS)
}
