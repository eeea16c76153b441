// Memory snapshots of machines that wait for their session, one per shape: starting from one is a fraction of a boot.
// SECURITY: a snapshot is taken before a machine is told anything of a session, and from one that no program of a user has run in.
import { execFile } from 'node:child_process'
import { createHash } from 'node:crypto'
import { existsSync } from 'node:fs'
import { mkdir, readFile, rm, stat, utimes } from 'node:fs/promises'
import { join } from 'node:path'
import { setTimeout as delay } from 'node:timers/promises'
import { renameDurably } from '../../../lib/durable-rename.ts'
import { isMissing, namesIn } from '../../../lib/missing-file.ts'
import { isAlive } from '../../machine/process-state.ts'
import { diskFile, type SessionDisks } from '../disks/session-disk.ts'
import type { SpareRoom } from '../disks/spare-space.ts'
import { unfinished } from '../disks/temporary-name.ts'
import { UNUSED_MS } from '../disks/unused.ts'
import type { MicrovmPaths } from '../paths.ts'
import type { Host } from '../probe.ts'
import type { MachineGroups } from '../qemu/cgroups.ts'
import { type Kept, startKept } from '../qemu/launcher.ts'
import type { MachineIds } from '../qemu/machine-ids.ts'
import { bearers, end, gone } from '../qemu/processes.ts'
import { guestMemoryMb } from '../qemu/qemu-args.ts'
import { vmJob } from '../qemu/vm-job.ts'
import { type Shape, shapeKey } from './shape.ts'

const MAX_SNAPSHOTS = 8
const MAX_BYTES = 4 * 1024 ** 3
const BOOT_DEADLINE_MS = 180_000
const WRITE_DEADLINE_MS = 60_000
const END_DEADLINE_MS = 10_000
/** What the machine says when it waits. */
const WAITING = 'sandglass: waiting for the session'
const POLL_MS = 20
const PAUSE_MS = 10_000
const FOLDER = /^snapshot-([0-9a-f]{16})$/

export class Snapshots {
  readonly #paths: MicrovmPaths
  readonly #runnerPath: string
  readonly #ids: MachineIds
  readonly #disks: SessionDisks
  readonly #room: SpareRoom
  /** Asked for, made or not. */
  readonly #tried = new Set<string>()
  #work: Promise<unknown> = Promise.resolve()
  #group: string | null = null
  #isClosed = false

  constructor(paths: MicrovmPaths, runnerPath: string, ids: MachineIds, disks: SessionDisks, room: SpareRoom) {
    this.#paths = paths
    this.#runnerPath = runnerPath
    this.#ids = ids
    this.#disks = disks
    this.#room = room
  }

  /** Name of the cgroups of the machine that a snapshot is being made of. */
  get group(): string | null {
    return this.#group
  }

  /**
   * Ends machines that a daemon was making snapshots of when it was killed: with their keepers gone, too, nobody else would. `groups` is asked
   * only where there are some.
   */
  async endLeft(groups: () => MachineGroups | null): Promise<void> {
    const names = await namesIn(this.#paths.run)
    for (const key of names.flatMap(name => FOLDER.exec(name)?.[1] ?? [])) {
      await this.#end(groups(), key)
      await rm(this.#folder(key), { recursive: true, force: true })
    }
  }

  /** The file to start a machine of this shape from, or null when there is none yet. */
  async find(host: Host, shape: Shape): Promise<string | null> {
    const key = shapeKey(shape, host)
    try {
      const now = new Date()
      // The ones that were used last are kept longest.
      await utimes(this.#file(key), now, now)
      return this.#file(key)
    } catch (error) {
      if (!isMissing(error)) throw error
      // One that was removed may be made again.
      this.#tried.delete(key)
      return null
    }
  }

  /** One that a machine did not start from is no use to others. */
  async remove(host: Host, shape: Shape): Promise<void> {
    const key = shapeKey(shape, host)
    this.#tried.delete(key)
    await rm(this.#file(key), { force: true })
  }

  /** Makes one in the background, a while after it was asked for and after those asked for before. Where that fails machines boot as before. */
  request(host: Host, shape: Shape): void {
    const key = shapeKey(shape, host)
    if (this.#tried.has(key)) return
    this.#tried.add(key)
    // Whoever asked has a session to use first.
    setTimeout(() => {
      this.#work = this.#work.then(() => this.#make(host, shape, key)).catch(() => this.#tried.delete(key))
    }, PAUSE_MS).unref()
  }

  /** Gives up the one that is being made. */
  async close(): Promise<void> {
    this.#isClosed = true
    if (this.#group !== null) for (const left of bearers(this.#id(this.#group))) await end(left, END_DEADLINE_MS)
    await this.#work
  }

  async #make(host: Host, shape: Shape, key: string): Promise<void> {
    if (this.#isClosed || existsSync(this.#file(key))) return
    // The image may be gone meanwhile.
    if (!existsSync(join(this.#paths.disks, shape.imageDisk)) || !existsSync(join(this.#paths.disks, shape.topDisk))) return
    // Its memory is the most that it can be.
    const most = guestMemoryMb(shape.memoryMb) * 1024 * 1024
    await this.#room.require('a snapshot', most)
    const [id, path, folder] = [this.#id(key), this.#file(key), this.#folder(key)]
    await rm(folder, { recursive: true, force: true })
    await mkdir(folder, { recursive: true, mode: 0o700 })
    await mkdir(this.#paths.snapshots, { recursive: true, mode: 0o700 })
    const [disk, log, building] = [join(folder, diskFile(shape.diskFormat)), join(folder, 'boot.log'), unfinished(path)]
    const sockets = {
      monitor: join(folder, 'm'),
      control: join(folder, 'c'),
      carrier: join(folder, 'r'),
      share: join(folder, 's'),
    }
    let kept: Kept | null = null
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
      kept = await startKept(this.#runnerPath, id, vmJob(host, this.#paths, input))
      await this.#untilWaiting(kept, log)
      await this.#room.take('a snapshot', full => this.#write(sockets.monitor, building, full), most)
      await endKept(kept)
      await renameDurably(building, path)
      await this.prune()
    } finally {
      if (kept !== null) await endKept(kept)
      await this.#end(host.groups, key)
      this.#group = null
      this.#ids.release(id)
      await rm(folder, { recursive: true, force: true })
      await rm(building, { force: true })
    }
  }

  /** Whatever is left of a machine. Its folder goes after it, so that what could not be ended is tried again. */
  async #end(groups: MachineGroups | null, key: string): Promise<void> {
    for (const left of bearers(this.#id(key))) await end(left, END_DEADLINE_MS)
    await groups?.remove(key)
  }

  async #untilWaiting({ qemu }: Kept, log: string): Promise<void> {
    const deadline = Date.now() + BOOT_DEADLINE_MS
    while (!(await readFile(log, 'latin1')).includes(WAITING)) {
      if (!isAlive(qemu) || this.#isClosed || Date.now() > deadline) throw new Error('the machine for a snapshot did not boot')
      await delay(POLL_MS)
    }
  }

  async #write(monitor: string, file: string, full: AbortSignal): Promise<void> {
    const job = JSON.stringify({ monitor, file, deadline_ms: WRITE_DEADLINE_MS })
    await new Promise<void>((resolve, reject) => {
      const child = execFile(this.#runnerPath, ['launch', 'snapshot'], { env: {}, signal: full }, (error, _, said) =>
        error === null ? resolve() : reject(new Error(`no snapshot: ${said}`, { cause: error })),
      )
      child.stdin?.on('error', () => undefined) // its exit tells
      child.stdin?.end(job)
    })
  }

  /** Keeps the ones used last, within the bounds. */
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

  /** Shapes are the same for every daemon on this host; processes are found by it, and must be of this one. */
  #id(key: string): string {
    const owner = createHash('sha256').update(this.#paths.dataDir).digest('hex').slice(0, 8)
    return `snapshot-${owner}-${key}`
  }
}

async function endKept({ qemu, keeper }: Kept): Promise<void> {
  await end(qemu, END_DEADLINE_MS)
  await gone(keeper, END_DEADLINE_MS)
}
