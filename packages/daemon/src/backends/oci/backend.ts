// The native backend: sandboxes in Linux namespaces, started by an OCI runtime (crun, else runc).
// The daemon decides, and the launcher, a short Go program, does what needs system calls that Node does not have: mounts, user namespaces,
// cgroups, and the start of the runtime. launcher/ talks to it, rootfs/ has images and disks, runtime/ what depends on the OCI runtime,
// users/ the user ids of sessions and the daemon's own user namespace.
import { mkdir, readdir, rm, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import type { Readable } from 'node:stream'
import { LIMITS, SandglassError } from '@sandglass/contract/tables'
import { type DiskPolicy, NO_OVERCOMMIT } from '../../data-dir/disk-policy.ts'
import type { Unpacked, UnpackLimits } from '../../layers/layer-folders.ts'
import { KeyedMutex } from '../../lib/keyed-mutex.ts'
import type {
  Backend,
  DiskSpace,
  LayeredImage,
  Machine,
  MachineRequirements,
  MachineRoot,
  MachineSpec,
  Probe,
  RuntimeReport,
  TrustedCa,
} from '../backend.ts'
import { PromisedSpace } from '../disk/promised-space.ts'
import type { LayerMaker } from '../image-builds.ts'
import { launcherBeside } from '../launcher/program.ts'
import { openBootLog } from '../machine/boot-log.ts'
import { isAlive } from '../machine/process-state.ts'
import { acceptedUnenforced } from '../machine/refusals.ts'
import { sessionFolders } from '../machine/session-folders.ts'
import { Ending } from './launcher/ending.ts'
import { preparation } from './launcher/jobs.ts'
import { againIfKilled, Launcher } from './launcher/launcher.ts'
import { type MachineOwner, ociMachine } from './machine.ts'
import { type OciPaths, ociPaths } from './paths.ts'
import { type Host, type HostProbe, probeHost } from './probe.ts'
import { type MachineRecord, readRecord, readState } from './record.ts'
import { checkRequirements } from './requirements.ts'
import { EmptyDisks } from './rootfs/disks.ts'
import { layerMaker } from './rootfs/layer-maker.ts'
import { placeProgram, programFolder } from './rootfs/programs.ts'
import { pruneOldFolders, RootImages } from './rootfs/root-images.ts'
import { CompiledSeccomp, removeCompiledFiles } from './runtime/compiled-seccomp.ts'
import { Runtimes } from './runtime/runtimes.ts'
import { startMachine } from './start.ts'
import { inUserNamespace } from './users/enter-userns.ts'
import { IdSlots } from './users/id-ranges.ts'

export interface OciOptions {
  readonly dataDir: string
  /** The default runtime of sessions: crun, runc, one of `runtimes`, a path, or auto. */
  readonly runtime: string
  /** Further runtimes that a session may ask for: paths by name. */
  readonly runtimes?: Readonly<Record<string, string>>
  readonly runnerPath: string
  readonly disk?: DiskPolicy
}

export async function openOci(options: OciOptions): Promise<Backend> {
  const paths = ociPaths(options.dataDir)
  const { sessions, run, runtimeRoot, images, empty, spareMount, runtimeMount } = paths
  for (const dir of [sessions, run, runtimeRoot, images, empty, spareMount, runtimeMount])
    await mkdir(dir, { recursive: true, mode: 0o700 })
  const runnerPath = await placeProgram('runner', options.runnerPath, images)
  const launcher = new Launcher(await placeProgram('launcher', launcherBeside(options.runnerPath), images))
  const runtimes = new Runtimes(options.runtime, options.runtimes ?? {})
  const probed = await probeHost(paths.dataDir, runtimes, launcher)
  const backend = new OciBackend({ ...options, runnerPath }, paths, runtimes, launcher, probed)
  await backend.load()
  return backend
}

class OciBackend implements Backend {
  readonly name = 'oci'
  readonly layers: LayerMaker
  readonly #paths: OciPaths
  readonly #runtimes: Runtimes
  readonly #ending: Ending
  readonly #launcher: Launcher
  readonly #runnerFile: string
  readonly #compiled = new CompiledSeccomp()
  readonly #mutex = new KeyedMutex()
  readonly #space: PromisedSpace
  readonly #images: RootImages
  #probed: HostProbe
  #slots: IdSlots
  #disks: EmptyDisks | null = null

  constructor(options: OciOptions, paths: OciPaths, runtimes: Runtimes, launcher: Launcher, probed: HostProbe) {
    this.#paths = paths
    this.#space = new PromisedSpace(paths.sessions)
    this.#runtimes = runtimes
    this.#launcher = launcher
    this.#ending = new Ending(paths, runtimes, launcher)
    this.#runnerFile = options.runnerPath
    this.#images = new RootImages(paths, launcher, inUserNamespace(), options.disk ?? NO_OVERCOMMIT)
    this.layers = layerMaker({ paths, images: this.#images, launcher: launcher.program, host: () => this.#host() })
    this.#probed = probed
    this.#slots = new IdSlots(probed.host?.pool ?? { slots: 0, ranges: () => [] }, paths.dataDir)
  }

  /** Reads the data folder, removes leftovers, and prepares what the first start would otherwise wait for. */
  async load(): Promise<void> {
    const { host } = this.#probed
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
    const programs = [this.#runnerFile, this.#launcher.program].map(programFolder)
    await pruneOldFolders(this.#paths.images, [await this.#images.load(), ...programs], records)
    this.#launcher.prepareStarts(
      group => preparation(host, this.#paths, group, this.#disks?.recent ?? null, this.#slots.next()),
      // What cannot be removed now is removed when the next daemon starts.
      group => void this.#ending.endLauncher(host, group, () => this.#records()).catch(() => undefined),
    )
  }

  /** Probes again while the host cannot be used, so that installing what is missing needs no restart. */
  async probe(): Promise<Probe> {
    if (this.#probed.host === null) {
      this.#probed = await probeHost(this.#paths.dataDir, this.#runtimes, this.#launcher)
      if (this.#probed.host !== null) {
        this.#slots = new IdSlots(this.#probed.host.pool, this.#paths.dataDir)
        await this.load()
      }
    }
    return this.#probed.probe
  }

  async checkRequirements(requirements: MachineRequirements): Promise<void> {
    await checkRequirements(await this.#hostWith(requirements.runtime), requirements)
  }

  async runtimes(): Promise<readonly RuntimeReport[]> {
    return await this.#runtimes.report(this.#probed.host)
  }

  async prepare(root: MachineRoot, signal: AbortSignal): Promise<void> {
    signal.throwIfAborted()
    await this.#images.prepare(await this.#host(), root, signal)
  }

  async receiveLayer(image: string, diffId: string, tar: Readable, limits: UnpackLimits, signal: AbortSignal): Promise<Unpacked> {
    return await this.#images.receive(image, diffId, tar, limits, signal)
  }

  async pruneImages(kept: readonly LayeredImage[], arriving: ReadonlySet<string>, trust?: TrustedCa): Promise<void> {
    await this.#images.prune(kept, arriving, new Set((await this.#records()).map(({ rootfs }) => rootfs)), trust)
  }

  async start(spec: MachineSpec, signal: AbortSignal): Promise<Machine> {
    return await this.#mutex.run(spec.id, () => againIfKilled(signal, () => this.#start(spec, signal)))
  }

  async close(): Promise<void> {
    await this.#launcher.close()
  }

  async recover(): Promise<Machine[]> {
    const { host } = this.#probed
    if (host === null) return []
    const found: Machine[] = []
    for (const id of await this.sessionIds()) {
      const folder = this.#paths.session(id)
      const [record, state] = await Promise.all([readRecord(folder), readState(folder)])
      if (record !== null && state !== null && isAlive(state))
        found.push(ociMachine(host, this.#paths, record, state, this.#owner))
    }
    return found
  }

  async diskSpace(isFresh?: boolean): Promise<DiskSpace> {
    return await this.#space.read(isFresh)
  }

  async sessionIds(): Promise<string[]> {
    const [folders, runtimes] = await Promise.all([
      sessionFolders(this.#paths.sessions, this.name),
      readdir(this.#paths.runtimeRoot),
    ])
    return [...new Set([...folders, ...runtimes])].filter(this.#paths.isId)
  }

  bootLog(id: string): Promise<Readable | null> {
    return openBootLog(join(this.#paths.session(id), 'logs', 'boot.log'))
  }

  async discard(id: string): Promise<void> {
    await this.#mutex.run(id, async () => {
      const folder = this.#paths.session(id)
      const record = await readRecord(folder)
      if (record === null) await this.#ending.endLost(this.#probed.host, () => this.#records())
      if (!(await this.sessionIds()).includes(id)) return
      await this.#ending.end(this.#probed.host, id, record, false)
      await rm(folder, { recursive: true, force: true })
      if (record !== null) this.#slots.release(record.slot)
    })
  }

  async #stop(id: string): Promise<void> {
    await this.#mutex.run(id, async () => {
      const record = await readRecord(this.#paths.session(id))
      if (record !== null) await this.#ending.end(this.#probed.host, id, record, true)
    })
  }

  async #start(spec: MachineSpec, signal: AbortSignal): Promise<Machine> {
    const host = await this.#hostWith(spec.runtime)
    await checkRequirements(host, spec)
    const context = {
      host,
      isDefaultRuntime: host.runtime === this.#probed.host?.runtime,
      unenforced: acceptedUnenforced(this.name, this.#probed.probe, spec.allowUnenforced),
      paths: this.#paths,
      launcher: this.#launcher,
      ending: this.#ending,
      images: this.#images,
      slots: this.#slots,
      disks: this.#disks,
      compiled: this.#compiled,
      runnerFile: this.#runnerFile,
    }
    const { record, state } = await startMachine(context, spec, signal)
    return ociMachine(host, this.#paths, record, state, this.#owner)
  }

  get #owner(): MachineOwner {
    return { launcher: this.#launcher, stop: id => this.#stop(id), discard: id => this.discard(id) }
  }

  async #records(): Promise<MachineRecord[]> {
    const found = await Promise.all((await this.sessionIds()).map(id => readRecord(this.#paths.session(id))))
    return found.filter(record => record !== null)
  }

  /** The host with the runtime that a session asks for. */
  async #hostWith(runtime: string | null): Promise<Host> {
    const host = await this.#host()
    return runtime === null ? host : { ...host, ...(await this.#runtimes.asked(runtime, host.cgroups)) }
  }

  /** SECURITY: nothing starts on a host that cannot isolate it. */
  async #host(): Promise<Host> {
    const probe = await this.probe()
    if (this.#probed.host !== null) return this.#probed.host
    throw new SandglassError('BACKEND_UNAVAILABLE', { backend: this.name, why: `${probe.why}; ${probe.fix}` })
  }
}
