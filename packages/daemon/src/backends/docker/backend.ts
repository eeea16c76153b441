// Machines as containers of a Docker engine, on this machine or on a remote one on which nothing of ours is installed.
// engine/ is the connection and its names, container/ one container, images/ what containers start from, build/ image builds.
import { mkdir, rm } from 'node:fs/promises'
import { join } from 'node:path'
import type { Readable } from 'node:stream'
import { SandglassError } from '@sandglass/contract/tables'
import type Docker from 'dockerode'
import { KeyedMutex } from '../../lib/keyed-mutex.ts'
import type {
  Backend,
  LayeredImage,
  Machine,
  MachineRequirements,
  MachineRoot,
  MachineSpec,
  Probe,
  RuntimeReport,
  TrustedCa,
} from '../backend.ts'
import type { ImageBuild } from '../image-builds.ts'
import { seccompProfile } from '../isolation/seccomp.ts'
import { launcherBeside } from '../launcher/program.ts'
import { openBootLog } from '../machine/boot-log.ts'
import { checked, isMachineId } from '../machine/paths.ts'
import { sessionFolders } from '../machine/session-folders.ts'
import { BootLogs } from './boot-log.ts'
import { buildInEngine } from './build/build.ts'
import { BuildCache } from './build/cache.ts'
import { containersOf, killContainer } from './container/containers.ts'
import { type EngineOptions, nullIfNotFound, openEngine } from './engine/engine.ts'
import { ownerOf } from './engine/names.ts'
import { EngineRuntimes } from './engine/runtimes.ts'
import { PackageVolumes } from './images/package-volumes.ts'
import { RootImages } from './images/root-images.ts'
import { RunnerVolume } from './images/runner-volume.ts'
import { removeScratch } from './images/scratch.ts'
import { dockerMachine, type MachineOwner } from './machine.ts'
import { probeEngine } from './probe.ts'
import { readRecord } from './record.ts'
import { checkRequirements } from './requirements.ts'
import { clearEngine, startMachine } from './start.ts'

export interface DockerOptions extends EngineOptions {
  readonly dataDir: string
  readonly runnerPath: string
  /** The engine's runtimes that a session may ask for. */
  readonly runtimes?: readonly string[]
}

/** How long a successful probe is cached. */
const PROBE_FRESH_MS = 10_000
/** How long the failed probe of a remote engine is cached. A local one is cheap to probe again and may just be starting. */
const ABSENT_FRESH_MS = 1000

export function openDocker(options: DockerOptions): Backend {
  return new DockerBackend(options)
}

class DockerBackend implements Backend {
  readonly name = 'docker'
  readonly #options: DockerOptions
  readonly #owner: string
  readonly #sessionsDir: string
  readonly #imagesDir: string
  readonly #mutex = new KeyedMutex()
  readonly #seccomp = seccompProfile(process.arch)
  readonly #images: RootImages
  readonly #runner: RunnerVolume
  readonly #packages: PackageVolumes
  readonly #runtimes: EngineRuntimes
  readonly #logs = new BootLogs(id => this.#folder(id))
  #engine: Promise<Docker> | undefined
  #scratchRemoved: Promise<void> | undefined
  #probed: { probe: Probe; until: number } | undefined
  #buildCache: BuildCache | undefined

  constructor(options: DockerOptions) {
    this.#options = options
    this.#owner = ownerOf(options.dataDir)
    this.#sessionsDir = join(options.dataDir, 'sessions')
    this.#imagesDir = join(options.dataDir, 'images')
    this.#images = new RootImages(this.#imagesDir, this.#owner, launcherBeside(options.runnerPath))
    this.#runner = new RunnerVolume(options.runnerPath, this.#owner)
    this.#packages = new PackageVolumes(this.#owner)
    this.#runtimes = new EngineRuntimes(options.runtimes ?? [], () => this.#open())
  }

  async probe(): Promise<Probe> {
    if (this.#probed !== undefined && Date.now() < this.#probed.until) return this.#probed.probe
    const probe = await probeEngine(() => this.#open(), this.#options.endpoint)
    const freshMs = probe.available ? PROBE_FRESH_MS : this.#isLocal ? 0 : ABSENT_FRESH_MS
    this.#probed = { probe, until: Date.now() + freshMs }
    return probe
  }

  async checkRequirements(requirements: MachineRequirements): Promise<void> {
    checkRequirements(requirements, this.#isLocal)
    if (requirements.runtime !== null) await this.#runtimes.check(requirements.runtime)
  }

  async runtimes(): Promise<readonly RuntimeReport[]> {
    return await this.#runtimes.report()
  }

  async prepare(machineRoot: MachineRoot, signal: AbortSignal): Promise<void> {
    const engine = await this.#available()
    const { image } = await this.#images.root(engine, machineRoot, signal)
    await this.#runner.place(engine, image)
    await this.#packages.check(engine, machineRoot.packages ?? [])
    await this.#packages.place(engine, image, machineRoot.packages ?? [])
  }

  /** Skipped for an engine that has not been used yet or is not available: it keeps its images until the next time. */
  async pruneImages(kept: readonly LayeredImage[], _arriving: ReadonlySet<string>, trust?: TrustedCa): Promise<void> {
    if (this.#engine === undefined || !(await this.probe()).available) return
    try {
      const engine = await this.#open()
      await this.#images.prune(engine, kept, trust)
      await this.#packages.prune(engine)
    } catch {
      // The removal or import of an image that led here has succeeded, so a failure to prune is not its failure.
    }
  }

  async buildImage<T>(build: ImageBuild, take: (archive: Readable) => Promise<T>, signal: AbortSignal): Promise<T> {
    const engine = await this.#available()
    await mkdir(this.#imagesDir, { recursive: true, mode: 0o700 })
    this.#buildCache ??= new BuildCache(engine, join(this.#imagesDir, 'docker-builds.json'))
    const context = { engine, owner: this.#owner, imagesDir: this.#imagesDir, cache: this.#buildCache }
    return await buildInEngine(context, build, take, signal)
  }

  async start(spec: MachineSpec, signal: AbortSignal): Promise<Machine> {
    return await this.#mutex.run(spec.id, async () => {
      const engine = await this.#available()
      await this.checkRequirements(spec)
      const context = {
        engine,
        owner: this.#owner,
        probe: await this.probe(),
        folder: this.#folder(spec.id),
        images: this.#images,
        runner: this.#runner,
        packages: this.#packages,
        seccomp: this.#seccomp,
        logs: this.#logs,
      }
      const { container, info, record } = await startMachine(context, spec, signal)
      return await dockerMachine(container, info, record, this.#machineOwner)
    })
  }

  async recover(): Promise<Machine[]> {
    this.#scratchRemoved ??= removeScratch(this.#imagesDir)
    await this.#scratchRemoved
    const found: Machine[] = []
    for (const id of await this.sessionIds()) {
      const engine = await this.#available()
      const record = await readRecord(this.#folder(id))
      if (record === null) continue
      const [container] = await containersOf(engine, this.#owner, id)
      const info = container === undefined ? null : await nullIfNotFound(container.inspect())
      if (container === undefined || !info?.State.Running) continue
      if (record.isChecked) found.push(await dockerMachine(container, info, record, this.#machineOwner))
      else await killContainer(container)
    }
    return found
  }

  /** A session's folder exists before its container and is removed after it, so the engine need not be asked. */
  async sessionIds(): Promise<string[]> {
    await mkdir(this.#sessionsDir, { recursive: true, mode: 0o700 })
    return (await sessionFolders(this.#sessionsDir, this.name)).filter(isMachineId)
  }

  bootLog(id: string): Promise<Readable | null> {
    return openBootLog(join(this.#folder(id), 'logs', 'boot.log'))
  }

  async discard(id: string): Promise<void> {
    await this.#mutex.run(id, async () => {
      await clearEngine(await this.#open(), this.#owner, id)
      this.#logs.forget(id)
      await rm(this.#folder(id), { recursive: true, force: true })
    })
  }

  async #stop(id: string): Promise<void> {
    await this.#mutex.run(id, async () => {
      for (const container of await containersOf(await this.#open(), this.#owner, id)) await killContainer(container)
    })
  }

  get #machineOwner(): MachineOwner {
    return {
      isLocal: this.#isLocal,
      log: (id, stderr) => this.#logs.add(id, stderr),
      stop: id => this.#stop(id),
      discard: id => this.discard(id),
    }
  }

  get #isLocal(): boolean {
    return this.#options.endpoint.startsWith('unix:')
  }

  #folder(id: string): string {
    return join(this.#sessionsDir, checked(id))
  }

  /** A failure is not cached: an unreadable certificate, for example, may be readable at the next call. */
  async #open(): Promise<Docker> {
    this.#engine ??= openEngine(this.#options)
    const engine = this.#engine
    try {
      return await engine
    } catch (error) {
      if (this.#engine === engine) this.#engine = undefined
      throw error
    }
  }

  async #available(): Promise<Docker> {
    const probe = await this.probe()
    if (probe.available) return await this.#open()
    throw new SandglassError('BACKEND_UNAVAILABLE', { backend: this.name, why: `${probe.why}; ${probe.fix}` })
  }
}
