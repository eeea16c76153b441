// Machines as containers of a Docker engine: this machine's, or one far away with nothing of ours installed.
import { randomBytes } from 'node:crypto'
import { mkdir, rm } from 'node:fs/promises'
import { join } from 'node:path'
import type { Readable } from 'node:stream'
import { SandglassError } from '@sandglass/contract/tables'
import type Docker from 'dockerode'
import { KeyedMutex } from '../../lib/keyed-mutex.ts'
import type {
  Backend,
  ImageBuild,
  LayeredImage,
  Machine,
  MachineSpec,
  MachineWishes,
  Probe,
  RootImage,
  RuntimeReport,
} from '../backend.ts'
import { seccompProfile } from '../isolation/seccomp.ts'
import { openBootLog } from '../machine/boot-log.ts'
import { checked, isMachineId } from '../machine/paths.ts'
import { keepLogAlone, sessionFolders } from '../machine/session-folders.ts'
import { unenforced } from '../machine/unenforced.ts'
import { BootLogs } from './boot-logs.ts'
import { buildInEngine } from './build/build.ts'
import { BuildCache } from './build/cache.ts'
import { begin } from './container/begin.ts'
import { containerOptions, stdinConfig } from './container/container.ts'
import { containersOf } from './container/containers.ts'
import { kill, remove } from './container/ending.ts'
import { unkept } from './container/kept-limits.ts'
import { type EngineOptions, openEngine, orNull, settled, startFailed, statusOf } from './engine/engine.ts'
import { IMAGE_LABEL, OWNER_LABEL, ownerOf, VOLUMES, volumeName } from './engine/names.ts'
import { EngineRuntimes } from './engine/runtimes.ts'
import { removeScratch } from './engine/scratch.ts'
import { pruneOwn } from './images/prune.ts'
import { hostRoot, imageRoot, type Root } from './images/root.ts'
import { RunnerVolume } from './images/runner-volume.ts'
import { dockerMachine, type Shown } from './machine.ts'
import { examine } from './probe.ts'
import { type DockerRecord, readRecord, writeRecord } from './record.ts'
import { refuseWishes } from './refuse.ts'

export interface DockerOptions extends EngineOptions {
  readonly dataDir: string
  readonly runnerPath: string
  /** Of the engine's, those that a session may ask for. */
  readonly runtimes?: readonly string[]
}

const START_DEADLINE_MS = 60_000
/** How long what the probe found is believed. */
const PROBE_FRESH_MS = 10_000
/** The same for a far engine that did not answer. A near one may just be starting, and costs nothing to ask again. */
const ABSENT_FRESH_MS = 1000

export function openDocker(options: DockerOptions): Backend {
  return new DockerBackend(options)
}

class DockerBackend implements Backend {
  readonly name = 'docker'
  readonly #options: DockerOptions
  readonly #owner: string
  readonly #sessions: string
  readonly #images: string
  readonly #mutex = new KeyedMutex()
  readonly #seccomp = seccompProfile(process.arch)
  #engine: Promise<Docker> | undefined
  #tidied: Promise<void> | undefined
  #probed: { probe: Probe; until: number } | undefined
  #roots = new Map<string, Root>()
  readonly #runner: RunnerVolume
  readonly #runtimes: EngineRuntimes
  readonly #logs = new BootLogs(id => this.#folder(id))
  #buildCache: BuildCache | undefined

  constructor(options: DockerOptions) {
    this.#options = options
    this.#owner = ownerOf(options.dataDir)
    this.#sessions = join(options.dataDir, 'sessions')
    this.#images = join(options.dataDir, 'images')
    this.#runner = new RunnerVolume(options.runnerPath, this.#owner)
    this.#runtimes = new EngineRuntimes(options.runtimes ?? [], () => this.#open())
  }

  async probe(): Promise<Probe> {
    if (this.#probed !== undefined && Date.now() < this.#probed.until) return this.#probed.probe
    const probe = await examine(() => this.#open(), this.#options.endpoint)
    const freshMs = probe.available ? PROBE_FRESH_MS : this.#isNear() ? 0 : ABSENT_FRESH_MS
    this.#probed = { probe, until: Date.now() + freshMs }
    return probe
  }

  async prepare(image: RootImage, signal: AbortSignal): Promise<void> {
    const engine = await this.#available()
    const root = await this.#root(engine, image, signal)
    await this.#runner.place(engine, root.image)
  }

  async refuse(wishes: MachineWishes): Promise<void> {
    refuseWishes(wishes, this.#isNear())
    if (wishes.runtime !== null) await this.#runtimes.refuse(wishes.runtime)
  }

  async runtimes(): Promise<readonly RuntimeReport[]> {
    return await this.#runtimes.report()
  }

  /** An engine that nobody has spoken to keeps its images until somebody does, and one that fails until the next time. */
  async pruneImages(kept: readonly LayeredImage[]): Promise<void> {
    if (this.#engine === undefined || !(await this.probe()).available) return
    const keys = new Set(['host', ...kept.map(({ id }) => id)])
    try {
      await pruneOwn(await this.#open(), this.#owner, keys, key => this.#roots.delete(key))
    } catch {
      // Whoever removed or imported an image has done so, whatever becomes of what was made of it.
    }
  }

  async buildImage<T>(build: ImageBuild, take: (archive: Readable) => Promise<T>, signal: AbortSignal): Promise<T> {
    const engine = await this.#available()
    await mkdir(this.#images, { recursive: true, mode: 0o700 })
    this.#buildCache ??= new BuildCache(engine, join(this.#images, 'docker-builds.json'))
    return await buildInEngine(
      { engine, owner: this.#owner, imagesDir: this.#images, cache: this.#buildCache },
      build,
      take,
      signal,
    )
  }

  async start(spec: MachineSpec, signal: AbortSignal): Promise<Machine> {
    return await this.#mutex.run(spec.id, async () => await this.#start(spec, signal))
  }

  async recover(): Promise<Machine[]> {
    this.#tidied ??= removeScratch(this.#images)
    await this.#tidied
    const found: Machine[] = []
    for (const id of await this.residents()) {
      const engine = await this.#available()
      const record = await readRecord(this.#folder(id))
      if (record === null) continue
      const [container] = await containersOf(engine, this.#owner, id)
      const shown = container === undefined ? null : await orNull(container.inspect())
      if (!shown?.State.Running) continue
      if (record.isChecked) found.push(await this.#machine(engine, shown, record))
      else await kill(engine.getContainer(shown.Id))
    }
    return found
  }

  /** A folder is there before its container and as long as that: no engine has to be asked, and none has to answer. */
  async residents(): Promise<string[]> {
    await mkdir(this.#sessions, { recursive: true, mode: 0o700 })
    return (await sessionFolders(this.#sessions, this.name)).filter(isMachineId)
  }

  bootLog(id: string): Promise<Readable | null> {
    return openBootLog(join(this.#folder(id), 'logs', 'boot.log'))
  }

  async discard(id: string): Promise<void> {
    await this.#mutex.run(id, async () => {
      await this.#clear(await this.#open(), id)
      await rm(this.#folder(id), { recursive: true, force: true })
    })
  }

  async #start(spec: MachineSpec, signal: AbortSignal): Promise<Machine> {
    const engine = await this.#available()
    await this.refuse(spec)
    const limits = unenforced(this.name, await this.probe(), spec.allowUnenforced)
    const deadline = AbortSignal.any([signal, AbortSignal.timeout(START_DEADLINE_MS)])
    const before = await readRecord(this.#folder(spec.id))
    const record: DockerRecord = {
      backend: 'docker',
      version: 1,
      id: spec.id,
      name: spec.name,
      token: randomBytes(32).toString('base64url'),
      image: spec.image.kind === 'host' ? 'host' : spec.image.reference,
      runtime: spec.runtime,
      isChecked: false,
      unenforced: [...limits],
    }
    await writeRecord(this.#folder(spec.id), record)
    try {
      const container = await this.#container(engine, spec, deadline)
      const { user } = await this.#root(engine, spec.image, deadline)
      const config = stdinConfig(spec, record.token, user)
      const shown = await begin(container, { mounts: spec.mounts, config }, said => this.#logs.add(spec.id, said), deadline)
      const kept = { ...record, isChecked: true, unenforced: await unkept(container, shown, spec, await this.probe()) }
      await writeRecord(this.#folder(spec.id), kept)
      return await this.#machine(engine, shown, kept)
    } catch (error) {
      await this.#undo(engine, spec.id, before, signal).catch(left => {
        throw startFailed(spec.id, left)
      })
      signal.throwIfAborted()
      throw startFailed(spec.id, error)
    }
  }

  async #undo(engine: Docker, id: string, before: DockerRecord | null, { aborted }: AbortSignal): Promise<void> {
    for (const container of await containersOf(engine, this.#owner, id)) await kill(container)
    if (before !== null) return await writeRecord(this.#folder(id), before)
    await this.#clear(engine, id)
    if (aborted) await rm(this.#folder(id), { recursive: true, force: true })
    else await keepLogAlone(this.#folder(id))
  }

  async #container(engine: Docker, spec: MachineSpec, signal: AbortSignal): Promise<Docker.Container> {
    const [old] = await Promise.all([containersOf(engine, this.#owner, spec.id), this.#runner.check(engine)])
    // One may run: it was taken for gone while the engine did not answer.
    for (const container of old) await remove(container)
    try {
      return await this.#create(engine, spec, signal)
    } catch (error) {
      if (statusOf(error) !== 404) throw error
    }
    // The image was removed behind our back.
    this.#roots.clear()
    return await this.#create(engine, spec, signal)
  }

  async #create(engine: Docker, spec: MachineSpec, signal: AbortSignal): Promise<Docker.Container> {
    const { user, ...root } = await this.#root(engine, spec.image, signal)
    const runnerVolume = await this.#runner.place(engine, root.image)
    signal.throwIfAborted()
    return await engine.createContainer(
      containerOptions({ spec, owner: this.#owner, ...root, runnerVolume, seccomp: this.#seccomp }),
    )
  }

  async #machine(engine: Docker, shown: Shown, record: DockerRecord): Promise<Machine> {
    // The processes of a kernel of its own are not the host's, and neither are its sockets.
    const isNear = this.#isNear() && record.runtime === null
    return await dockerMachine(engine, shown, record, this.#ends, text => void this.#logs.add(record.id, text), isNear)
  }

  readonly #ends = {
    stop: async (id: string) => {
      await this.#mutex.run(id, async () => {
        for (const container of await containersOf(await this.#open(), this.#owner, id)) await kill(container)
      })
    },
    discard: (id: string) => this.discard(id),
  }

  /** Everything of it that the engine has. */
  async #clear(engine: Docker, id: string): Promise<void> {
    for (const container of await containersOf(engine, this.#owner, id)) await remove(container)
    for (const what of VOLUMES) await settled(engine.getVolume(volumeName(id, what)).remove({ force: true }), 404)
    this.#logs.forget(id)
  }

  async #root(engine: Docker, image: RootImage, signal: AbortSignal): Promise<Root> {
    const key = image.kind === 'host' ? 'host' : image.id
    const known = this.#roots.get(key)
    if (known !== undefined) return known
    await mkdir(this.#images, { recursive: true, mode: 0o700 })
    const labels = { [OWNER_LABEL]: this.#owner, [IMAGE_LABEL]: key }
    const root =
      image.kind === 'host'
        ? await hostRoot(engine, this.#images, labels, signal)
        : await imageRoot(engine, this.#images, image, labels, this.#options.runnerPath, signal)
    this.#roots.set(key, root)
    return root
  }

  #folder(id: string): string {
    return join(this.#sessions, checked(id))
  }

  #isNear(): boolean {
    return this.#options.endpoint.startsWith('unix:')
  }

  /** What keeps it from being opened, a file that cannot be read for one, may be mended by the next time. */
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
