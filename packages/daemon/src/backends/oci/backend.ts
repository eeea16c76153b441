// The native backend: an OCI runtime (crun, else runc) in namespaces of its own, put together by `runner launch`.
import { randomBytes } from 'node:crypto'
import { existsSync } from 'node:fs'
import { mkdir, readdir, rm, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import type { Readable } from 'node:stream'
import { LIMITS, SandglassError } from '@sandglass/contract/tables'
import { type DiskPolicy, NO_OVERCOMMIT } from '../../data-dir/disk-policy.ts'
import type { Unpacked, UnpackLimits } from '../../layers/layer-folders.ts'
import { KeyedMutex } from '../../lib/keyed-mutex.ts'
import type {
  Backend,
  LayeredImage,
  Machine,
  MachineSpec,
  MachineWishes,
  Probe,
  Room,
  RootImage,
  RuntimeReport,
} from '../backend.ts'
import { DiskRoom } from '../disk/promised-space.ts'
import { openBootLog } from '../machine/boot-log.ts'
import { isAlive } from '../machine/process-state.ts'
import { sessionFolders } from '../machine/session-folders.ts'
import { unenforced } from '../machine/unenforced.ts'
import { Ending } from './launcher/ending.ts'
import { hasLeft, keptFiles, preparation, runtimeArgv, type StartInput, startJob } from './launcher/jobs.ts'
import { againIfKilled, isLaunchFailure, LaunchError, Launcher } from './launcher/launcher.ts'
import { ociMachine } from './machine.ts'
import { type OciPaths, ociPaths } from './paths.ts'
import { type Examined, examine, type Host } from './probe.ts'
import { type MachineRecord, readRecord, readState, writeRecord } from './record.ts'
import { refuseWishes } from './refuse.ts'
import { EmptyDisks } from './rootfs/disks.ts'
import { pruneImages, runnerName } from './rootfs/prune-images.ts'
import { type Rootfs, RootImages } from './rootfs/root-images.ts'
import { placeRunner } from './rootfs/runner-file.ts'
import { CompiledSeccomp, removeCompiledFiles } from './runtime/compiled-seccomp.ts'
import { kernelProfile } from './runtime/profile.ts'
import { Runtimes } from './runtime/runtimes.ts'
import { inUserNamespace } from './users/enter-userns.ts'
import { IdSlots } from './users/id-ranges.ts'

export interface OciOptions {
  readonly dataDir: string
  /** crun, runc, one of `runtimes`, a path, or auto: what a session that asks for none gets. */
  readonly runtime: string
  /** Further runtimes that a session may ask for, by name. */
  readonly runtimes?: Readonly<Record<string, string>>
  readonly runnerPath: string
  readonly disk?: DiskPolicy
}

const START_DEADLINE_MS = 30_000

export async function openOci(options: OciOptions): Promise<Backend> {
  const paths = ociPaths(options.dataDir)
  const { sessions, run, runtimeRoot, images, empty, spareMount, runtimeMount } = paths
  for (const dir of [sessions, run, runtimeRoot, images, empty, spareMount, runtimeMount])
    await mkdir(dir, { recursive: true, mode: 0o700 })
  const runnerPath = await placeRunner(options.runnerPath, images)
  const launcher = new Launcher(runnerPath)
  const runtimes = new Runtimes(options.runtime, options.runtimes ?? {})
  const examined = await examine(paths.dataDir, runtimes, launcher)
  const backend = new OciBackend({ ...options, runnerPath }, paths, runtimes, launcher, examined)
  await backend.load()
  return backend
}

class OciBackend implements Backend {
  readonly name = 'oci'
  readonly #paths: OciPaths
  readonly #runtimes: Runtimes
  readonly #ending: Ending
  readonly #launcher: Launcher
  readonly #runnerFile: string
  readonly #compiled = new CompiledSeccomp()
  readonly #mutex = new KeyedMutex()
  readonly #room: DiskRoom
  readonly #images: RootImages
  #examined: Examined
  #slots: IdSlots
  #disks: EmptyDisks | null = null

  constructor(options: OciOptions, paths: OciPaths, runtimes: Runtimes, launcher: Launcher, examined: Examined) {
    this.#paths = paths
    this.#room = new DiskRoom(paths.sessions)
    this.#runtimes = runtimes
    this.#launcher = launcher
    this.#ending = new Ending(paths, runtimes, launcher)
    this.#runnerFile = options.runnerPath
    this.#images = new RootImages(paths, launcher, this.#runnerFile, inUserNamespace(), options.disk ?? NO_OVERCOMMIT)
    this.#examined = examined
    this.#slots = new IdSlots(examined.host?.pool ?? { slots: 0, ranges: () => [] }, paths.dataDir)
  }

  /** Takes in what is in the data folder, and gets ready what the first start would have to wait for. */
  async load(): Promise<void> {
    const { host } = this.#examined
    const records = await this.#records()
    for (const { slot } of records) this.#slots.claim(slot)
    await this.#ending.endLost(host, async () => records)
    await writeFile(this.#paths.users, '')
    await removeCompiledFiles(this.#paths.run)
    if (host === null) return
    if (host.mkfs !== null) {
      this.#disks = new EmptyDisks(this.#paths.disks, host.mkfs)
      await this.#disks.path(LIMITS.disk_mb.default)
      await this.#disks.sweep()
    }
    await pruneImages(this.#paths.images, [await this.#images.load(), runnerName(this.#runnerFile)], records)
    this.#launcher.prepareStarts(
      group => preparation(host, this.#paths, group, this.#disks?.recent ?? null, this.#slots.next()),
      // What could not be removed now is when the next daemon opens.
      group => void this.#ending.endLauncher(host, group, () => this.#records()).catch(() => undefined),
    )
  }

  /** Looks again while nothing could be used, so that installing what is missing needs no restart. */
  async probe(): Promise<Probe> {
    if (this.#examined.host === null) {
      this.#examined = await examine(this.#paths.dataDir, this.#runtimes, this.#launcher)
      if (this.#examined.host !== null) {
        this.#slots = new IdSlots(this.#examined.host.pool, this.#paths.dataDir)
        await this.load()
      }
    }
    return this.#examined.probe
  }

  async prepare(image: RootImage, signal: AbortSignal): Promise<void> {
    signal.throwIfAborted()
    await this.#images.prepare(await this.#host(), image, signal)
  }

  async receiveLayer(image: string, diffId: string, tar: Readable, limits: UnpackLimits, signal: AbortSignal): Promise<Unpacked> {
    return await this.#images.receive(image, diffId, tar, limits, signal)
  }

  async pruneImages(kept: readonly LayeredImage[], held: ReadonlySet<string>): Promise<void> {
    await this.#images.prune(kept, held, new Set((await this.#records()).map(({ rootfs }) => rootfs)))
  }

  async start(spec: MachineSpec, signal: AbortSignal): Promise<Machine> {
    return await this.#mutex.run(spec.id, () => againIfKilled(signal, () => this.#start(spec, signal)))
  }

  async runtimes(): Promise<readonly RuntimeReport[]> {
    return await this.#runtimes.report(this.#examined.host)
  }

  async refuse(wishes: MachineWishes): Promise<void> {
    await refuseWishes(await this.#hostWith(wishes.runtime), wishes)
  }

  async recover(): Promise<Machine[]> {
    const { host } = this.#examined
    if (host === null) return []
    const found: Machine[] = []
    for (const id of await this.residents()) {
      const folder = this.#paths.session(id)
      const [record, state] = await Promise.all([readRecord(folder), readState(folder)])
      if (record !== null && state !== null && isAlive(state))
        found.push(ociMachine(host, this.#paths, record, state, this.#hands))
    }
    return found
  }

  async residents(): Promise<string[]> {
    const [folders, runtimes] = await Promise.all([
      sessionFolders(this.#paths.sessions, this.name),
      readdir(this.#paths.runtimeRoot),
    ])
    return [...new Set([...folders, ...runtimes])].filter(this.#paths.isId)
  }

  async room(isFresh?: boolean): Promise<Room> {
    return await this.#room.read(isFresh)
  }

  bootLog(id: string): Promise<Readable | null> {
    return openBootLog(join(this.#paths.session(id), 'logs', 'boot.log'))
  }

  async discard(id: string): Promise<void> {
    await this.#mutex.run(id, async () => {
      const folder = this.#paths.session(id)
      const record = await readRecord(folder)
      if (record === null) await this.#ending.endLost(this.#examined.host, () => this.#records())
      if (!(await this.residents()).includes(id)) return
      await this.#end(id, record, false)
      await rm(folder, { recursive: true, force: true })
      if (record !== null) this.#slots.release(record.slot)
    })
  }

  readonly #hands = {
    launcher: () => this.#launcher,
    stop: async (id: string) => {
      await this.#mutex.run(id, async () => {
        const record = await readRecord(this.#paths.session(id))
        if (record !== null) await this.#end(id, record, true)
      })
    },
    discard: (id: string) => this.discard(id),
  }

  async #start(spec: MachineSpec, signal: AbortSignal): Promise<Machine> {
    const host = await this.#hostWith(spec.runtime)
    await this.refuse(spec)
    const limits = unenforced(this.name, this.#examined.probe, spec.allowUnenforced)
    const rootfs = await this.#images.rootfs(host, spec.image, signal)
    const folder = this.#paths.session(spec.id)
    const [before, state] = existsSync(folder) ? await Promise.all([readRecord(folder), readState(folder)]) : [null, null]
    if (state !== null && isAlive(state)) throw new SandglassError('START_FAILED', { id: spec.id, why: 'it already runs' })
    // It ended by itself, or a daemon died while it started: what was left would be in the way.
    if (before !== null && (state !== null || hasLeft(host, this.#paths, before))) await this.#end(spec.id, before, true)
    const slot = before?.slot ?? this.#slots.take()
    if (slot === null) throw new SandglassError('HOST_FULL', { what: `all ${host.pool.slots} blocks of user ids are taken` })
    const record: Omit<MachineRecord, 'group'> = {
      version: 1,
      id: spec.id,
      name: spec.name,
      image: spec.image.kind,
      rootfs: rootfs.name,
      runner: runnerName(this.#runnerFile),
      slot,
      token: randomBytes(32).toString('base64url'),
      runtime: runtimeArgv(host, this.#paths),
      hiddenMounts: [...host.hiddenMounts],
      readonlyRootfs: spec.readonlyRootfs,
      ownKernel: host.kind === 'runsc',
      diskMb: before?.diskMb ?? spec.diskMb,
      unenforced: [...limits],
    }
    let group = ''
    try {
      const input = await this.#startInput(host, spec, rootfs, record.diskMb)
      const deadline = AbortSignal.any([signal, AbortSignal.timeout(START_DEADLINE_MS)])
      const job = (name: string) => {
        group = name
        return startJob(host, this.#paths, { ...input, record: { ...record, group } })
      }
      // The launcher that waits has prepared for the main runtime.
      const unprepared = (name: string) => preparation(host, this.#paths, name, null, null)
      const isMain = host.runtime === this.#examined.host?.runtime
      const { state, filter } = await this.#launcher.start(job, deadline, isMain ? undefined : unprepared)
      if (state === undefined) throw new LaunchError('the launcher gave no state')
      if (filter !== undefined) this.#compiled.keep(host, Buffer.from(filter, 'base64'))
      return ociMachine(host, this.#paths, { ...record, group }, state, this.#hands)
    } catch (error) {
      this.#compiled.forget(host)
      // Whatever happened, nothing of this attempt stays; a disk that was there before does.
      if (group !== '') await this.#end(spec.id, { ...record, group }, false)
      if (before === null) {
        await rm(folder, { recursive: true, force: true })
        this.#slots.release(slot)
      } else await writeRecord(folder, before)
      signal.throwIfAborted()
      if (isLaunchFailure(error)) {
        throw new SandglassError('START_FAILED', { id: spec.id, why: error.message }, { cause: error })
      }
      throw error
    }
  }

  async #startInput(host: Host, spec: MachineSpec, rootfs: Rootfs, diskMb: number): Promise<Omit<StartInput, 'record'>> {
    const tar = keptFiles(this.#paths, spec.id)
    return {
      spec,
      rootfs,
      runnerFile: this.#runnerFile,
      emptyDisk: this.#disks === null ? null : await this.#disks.path(diskMb),
      kept: host.mkfs === null && existsSync(tar) ? tar : null,
      seccomp: kernelProfile(host),
      compiledSeccomp: this.#compiled.get(host),
      // What runc compiled is had through the kernel, which tells root alone.
      wantFilter: this.#compiled.wants(host) && (host.kind === 'crun' || !host.rootless),
    }
  }

  async #end(id: string, record: MachineRecord | null, keepFiles: boolean): Promise<void> {
    await this.#ending.end(this.#examined.host, id, record, keepFiles)
  }

  async #records(): Promise<MachineRecord[]> {
    const found = await Promise.all((await this.residents()).map(id => readRecord(this.#paths.session(id))))
    return found.filter(record => record !== null)
  }

  /** The host with the runtime that a session asks for. */
  async #hostWith(runtime: string | null): Promise<Host> {
    const host = await this.#host()
    return runtime === null ? host : { ...host, ...(await this.#runtimes.asked(runtime, host.cgroups)) }
  }

  /** SECURITY: with nothing to isolate with, nothing runs. */
  async #host(): Promise<Host> {
    const probe = await this.probe()
    if (this.#examined.host !== null) return this.#examined.host
    throw new SandglassError('BACKEND_UNAVAILABLE', { backend: this.name, why: `${probe.why}; ${probe.fix}` })
  }
}
