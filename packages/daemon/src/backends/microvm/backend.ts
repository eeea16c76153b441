// Machines as virtual machines of QEMU, each with a kernel of its own.
import { randomBytes } from 'node:crypto'
import { existsSync } from 'node:fs'
import { mkdir, rm } from 'node:fs/promises'
import { join } from 'node:path'
import { SandglassError } from '@sandglass/contract/tables'
import type { Backend, LayeredImage, Machine, MachineSpec, Probe, Room, RootImage } from '../backend.ts'
import { DiskRoom } from '../disk-room.ts'
import { sessionFolders } from '../session-folders.ts'
import { Turns } from '../turns.ts'
import { lastWords } from './boot-log.ts'
import { askToEnd, beginSession } from './control-port.ts'
import { guestConfig } from './guest-config.ts'
import { type ImageDisk, ImageDisks } from './image-disks.ts'
import { IDS_PER_MACHINE } from './jail.ts'
import { KeeperError, startKept } from './keeper.ts'
import { ConnectionClosed } from './lines.ts'
import { microvmMachine } from './machine.ts'
import { type MicrovmPaths, microvmPaths } from './paths.ts'
import { type Examined, examine, type Host, type MicrovmOptions } from './probe.ts'
import { bearers, end, gone, isAlive } from './process-state.ts'
import { type MachineState, type MicrovmRecord, readRecord, readState, removeState, writeRecord, writeState } from './record.ts'
import { createDisk, diskFile } from './session-disk.ts'
import type { Shape } from './shape.ts'
import { guestShares, refuseShares } from './shares.ts'
import { Snapshots } from './snapshots.ts'
import { vmJob } from './vm-job.ts'

const START_DEADLINE_MS = 120_000
const RESTORE_DEADLINE_MS = 20_000
const END_DEADLINE_MS = 10_000
/** How long a machine may take to bring its disk in order before it is switched off. */
const ORDERLY_MS = 5000

/** Cheap: nothing is looked for before it is needed. */
export function openMicrovm(options: MicrovmOptions): Backend {
  return new MicrovmBackend(options)
}

class MicrovmBackend implements Backend {
  readonly name = 'microvm'
  readonly #options: MicrovmOptions
  readonly #paths: MicrovmPaths
  readonly #turns = new Turns()
  readonly #room: DiskRoom
  readonly #images: ImageDisks
  readonly #snapshots: Snapshots
  /** Ids of machines whose record is not written yet, and of those that have been started since. */
  readonly #claimed = new Map<string, number>()
  #examined: Promise<Examined> | null = null

  constructor(options: MicrovmOptions) {
    this.#options = options
    this.#paths = microvmPaths(options.dataDir)
    this.#room = new DiskRoom(this.#paths.sessions)
    this.#images = new ImageDisks(this.#paths, options.runnerPath, () => this.#usedDisks())
    this.#snapshots = new Snapshots(this.#paths, options.runnerPath)
  }

  /** Looks again while nothing could be used, so that installing what is missing needs no restart. */
  async probe(): Promise<Probe> {
    return (await this.#examine()).probe
  }

  async prepare(image: RootImage, signal: AbortSignal, say: (step: string) => void = () => undefined): Promise<void> {
    await this.#images.prepare(await this.#host(), image, signal, say)
  }

  async pruneImages(kept: readonly LayeredImage[]): Promise<void> {
    await this.#images.prune(kept)
  }

  async start(spec: MachineSpec, signal: AbortSignal): Promise<Machine> {
    return await this.#turns.take(spec.id, async () => await this.#start(spec, signal))
  }

  async recover(): Promise<Machine[]> {
    const found: Machine[] = []
    for (const id of await this.residents()) {
      const folder = this.#paths.session(id)
      const [record, state] = await Promise.all([readRecord(folder), readState(folder)])
      if (record !== null && state !== null && isAlive(state)) found.push(this.#machine(record, state))
    }
    return found
  }

  async residents(): Promise<string[]> {
    await mkdir(this.#paths.sessions, { recursive: true, mode: 0o700 })
    return (await sessionFolders(this.#paths.sessions, this.name)).filter(this.#paths.isId)
  }

  async room(): Promise<Room> {
    return await this.#room.read()
  }

  async discard(id: string): Promise<void> {
    await this.#turns.take(id, async () => {
      await this.#end(id, false)
      await rm(this.#paths.session(id), { recursive: true, force: true })
      this.#claimed.delete(id)
    })
  }

  readonly #ends = {
    stop: async (id: string) => {
      await this.#turns.take(id, () => this.#end(id, true))
    },
    discard: (id: string) => this.discard(id),
  }

  async #start(spec: MachineSpec, signal: AbortSignal): Promise<Machine> {
    const host = await this.#host()
    await refuseShares(host, this.#options.shareProto, spec.mounts)
    const image = await this.#images.prepare(host, spec.image, signal, () => undefined)
    const folder = this.#paths.session(spec.id)
    const before = await readRecord(folder)
    const state = await readState(folder)
    if (state !== null && isAlive(state)) throw new SandglassError('START_FAILED', { id: spec.id, why: 'it already runs' })
    const record: MicrovmRecord = {
      backend: 'microvm',
      version: 1,
      id: spec.id,
      name: spec.name,
      image: spec.image.kind === 'host' ? 'host' : spec.image.reference,
      disks: [image.image, image.top],
      token: randomBytes(32).toString('base64url'),
      diskMb: before?.diskMb ?? spec.diskMb,
      diskFormat: before?.diskFormat ?? this.#options.diskFormat,
      jailId: await this.#freeId(host, spec.id),
      unenforced: [],
    }
    await writeRecord(folder, record)
    try {
      // What ended by itself, or with its daemon in the middle of a start, may have left something.
      await this.#end(spec.id, false)
      const deadline = AbortSignal.any([signal, AbortSignal.timeout(START_DEADLINE_MS)])
      return this.#machine(record, await this.#bringUp(host, spec, record, image, deadline))
    } catch (error) {
      await this.#end(spec.id, false)
      const said = await lastWords(this.#paths.bootLog(spec.id))
      this.#claimed.delete(spec.id)
      if (before === null) await rm(folder, { recursive: true, force: true })
      else await writeRecord(folder, before)
      signal.throwIfAborted()
      if (error instanceof SandglassError) throw error
      throw new SandglassError('START_FAILED', { id: spec.id, why: reason(error, said) }, { cause: error })
    }
  }

  /** From a snapshot where there is one; else by booting, and then there will be one for the next. */
  async #bringUp(
    host: Host,
    spec: MachineSpec,
    record: MicrovmRecord,
    image: ImageDisk,
    signal: AbortSignal,
  ): Promise<MachineState> {
    const disk = join(this.#paths.session(spec.id), diskFile(record.diskFormat))
    if (!existsSync(disk)) await createDisk(this.#paths.empty, host.disks, record.diskFormat, record.diskMb, disk)
    const shape = this.#shape(host, spec, record, image)
    // What serves a folder of the host holds state that no snapshot has.
    const canSnapshot = spec.mounts.length === 0
    const snapshot = canSnapshot ? await this.#snapshots.find(host, shape) : null
    if (snapshot !== null) {
      try {
        const soon = AbortSignal.any([signal, AbortSignal.timeout(RESTORE_DEADLINE_MS)])
        return await this.#run(host, spec, record, image, shape, snapshot, soon)
      } catch (error) {
        signal.throwIfAborted()
        if (!(error instanceof Error)) throw error
        await this.#end(spec.id, false)
        await this.#snapshots.remove(host, shape)
      }
    }
    const state = await this.#run(host, spec, record, image, shape, null, signal)
    if (canSnapshot) this.#snapshots.request(host, shape)
    return state
  }

  async #run(
    host: Host,
    spec: MachineSpec,
    record: MicrovmRecord,
    image: ImageDisk,
    shape: Shape,
    snapshot: string | null,
    signal: AbortSignal,
  ): Promise<MachineState> {
    const { id } = spec
    const sockets = this.#paths.sockets(id)
    signal.throwIfAborted()
    await mkdir(this.#paths.run, { recursive: true, mode: 0o700 })
    const disk = join(this.#paths.session(id), diskFile(record.diskFormat))
    const input = {
      id,
      shape,
      disk,
      durable: spec.persist,
      sockets,
      log: this.#paths.bootLog(id),
      snapshot,
      jailId: record.jailId,
      bridge: '',
      mounts: spec.mounts,
    }
    const kept = await startKept(this.#options.runnerPath, id, vmJob(host, this.#paths, input))
    await beginSession(
      sockets.control,
      guestConfig(spec, record.token, image.user, guestShares(this.#options.shareProto, spec.mounts)),
      signal,
    )
    const state = { ...kept.qemu, keeper: kept.keeper }
    await writeState(this.#paths.session(id), state)
    kept.release()
    return state
  }

  #shape(host: Host, spec: MachineSpec, { diskMb, diskFormat }: MicrovmRecord, image: ImageDisk): Shape {
    const nested = spec.nestedVirt ? host.nested : null
    return {
      imageDisk: image.image,
      topDisk: image.top,
      layers: image.layers,
      memoryMb: spec.memoryMb,
      vcpus: Math.ceil(spec.cpuCores),
      diskMb,
      diskFormat,
      nestedVirt: nested !== null,
      modules: [...(nested === null ? [] : [nested]), ...(spec.mounts.length > 0 ? [this.#options.shareProto] : [])],
      extraArgs: this.#options.extraArgs,
    }
  }

  async #records(): Promise<MicrovmRecord[]> {
    const records = await Promise.all((await this.residents()).map(id => readRecord(this.#paths.session(id))))
    return records.filter(record => record !== null)
  }

  async #usedDisks(): Promise<Set<string>> {
    return new Set((await this.#records()).flatMap(record => record.disks))
  }

  /** An id for this machine's QEMU that no other machine's has. The first is that of machines for snapshots. */
  async #freeId({ jailIds }: Host, id: string): Promise<number | null> {
    if (jailIds === null) return null
    const records = await Promise.all((await this.residents()).map(other => readRecord(this.#paths.session(other))))
    const taken = new Set([
      ...this.#claimed.values(),
      ...records.filter(record => record?.id !== id).map(record => record?.jailId),
    ])
    for (let i = IDS_PER_MACHINE; i + IDS_PER_MACHINE <= jailIds.count; i += IDS_PER_MACHINE) {
      const number = jailIds.first + i
      if (taken.has(number)) continue
      this.#claimed.set(id, number)
      return number
    }
    throw new SandglassError('HOST_FULL', { what: `all ${jailIds.count} user ids for virtual machines are taken` })
  }

  /** Ends whatever runs under this id; resolves when no process and no socket of it is left. */
  async #end(id: string, orderly: boolean): Promise<void> {
    const folder = this.#paths.session(id)
    const state = await readState(folder)
    if (state !== null && isAlive(state)) {
      if (orderly) await this.#endOrderly(id, state)
      await end(state, END_DEADLINE_MS)
    }
    if (state !== null) await gone(state.keeper, END_DEADLINE_MS)
    for (const left of bearers(id)) await end(left, END_DEADLINE_MS)
    await removeState(folder)
    for (const socket of Object.values(this.#paths.sockets(id))) await rm(socket, { force: true })
  }

  async #endOrderly(id: string, state: MachineState): Promise<void> {
    const { control } = this.#paths.sockets(id)
    await askToEnd(control).catch(() => undefined) // one that does not listen is switched off
    await gone(state, ORDERLY_MS)
  }

  #machine(record: MicrovmRecord, state: MachineState): Machine {
    return microvmMachine(this.#paths, record, state, this.#ends)
  }

  async #examine(): Promise<Examined> {
    const known = await this.#examined
    if (known?.host) return known
    this.#examined = examine(this.#options, this.#paths)
    return await this.#examined
  }

  /** SECURITY: with nothing to isolate with, nothing runs. */
  async #host(): Promise<Host> {
    const { host, probe } = await this.#examine()
    if (host !== null) return host
    throw new SandglassError('BACKEND_UNAVAILABLE', { backend: this.name, why: `${probe.why}; ${probe.fix}` })
  }
}

function reason(error: unknown, said: string): string {
  if (error instanceof KeeperError) return error.message
  const isLate = error instanceof DOMException && error.name === 'TimeoutError'
  const message = error instanceof Error ? error.message : String(error)
  const what = isLate ? 'it was not ready in time' : error instanceof ConnectionClosed ? 'it ended before it was ready' : message
  return `${what}; the last that the machine said: ${said}`
}
