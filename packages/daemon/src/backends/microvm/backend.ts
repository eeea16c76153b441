// Machines as virtual machines of QEMU, each with a kernel of its own.
import { randomBytes } from 'node:crypto'
import { existsSync } from 'node:fs'
import { mkdir, rm } from 'node:fs/promises'
import { basename, join } from 'node:path'
import { SandglassError } from '@sandglass/contract/tables'
import type { Backend, Machine, MachineSpec, Probe, Room, RootImage } from '../backend.ts'
import { DiskRoom } from '../disk-room.ts'
import { sessionFolders } from '../session-folders.ts'
import { Turns } from '../turns.ts'
import { askToEnd, beginSession } from './control-port.ts'
import { guestConfig } from './guest-config.ts'
import { prepareHostDisk } from './host-disk.ts'
import { KeeperError, type Kept, startKept } from './keeper.ts'
import { lastWords, microvmMachine } from './machine.ts'
import { type MicrovmPaths, microvmPaths } from './paths.ts'
import { type Examined, examine, type Host, type MicrovmOptions } from './probe.ts'
import { bearers, end, gone, isAlive } from './process-state.ts'
import { qemuArgs } from './qemu-args.ts'
import { type MachineState, type MicrovmRecord, readRecord, readState, removeState, writeRecord, writeState } from './record.ts'
import { createDisk, diskFile } from './session-disk.ts'

const START_DEADLINE_MS = 120_000
const END_DEADLINE_MS = 10_000
/** How long a machine may take to bring its disk in order before it is switched off. */
const ORDERLY_MS = 5000
const LOG_BYTES = 256 * 1024

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
  #examined: Examined | null = null
  #hostDisk: string | null = null

  constructor(options: MicrovmOptions) {
    this.#options = options
    this.#paths = microvmPaths(options.dataDir)
    this.#room = new DiskRoom(this.#paths.sessions)
  }

  /** Looks again while nothing could be used, so that installing what is missing needs no restart. */
  async probe(): Promise<Probe> {
    if (this.#examined === null || this.#examined.host === null) this.#examined = await examine(this.#options, this.#paths)
    return this.#examined.probe
  }

  async prepare(image: RootImage, signal: AbortSignal, say: (step: string) => void = () => undefined): Promise<void> {
    const host = await this.#host()
    if (image.kind !== 'host') throw new SandglassError('IMAGE_NOT_FOUND', { image: image.reference })
    this.#hostDisk = await prepareHostDisk(host.mksquashfs, this.#paths, signal, say)
  }

  async start(spec: MachineSpec, signal: AbortSignal): Promise<Machine> {
    return await this.#turns.take(spec.id, async () => await this.#start(spec, signal))
  }

  async recover(): Promise<Machine[]> {
    const found: Machine[] = []
    for (const id of await this.residents()) {
      const folder = this.#paths.session(id)
      const [record, state] = await Promise.all([readRecord(folder), readState(folder)])
      if (record !== null && state !== null && isAlive(state.qemu)) found.push(this.#machine(record, state))
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
    if (this.#hostDisk === null) await this.prepare(spec.image, signal)
    const folder = this.#paths.session(spec.id)
    const before = await readRecord(folder)
    const state = await readState(folder)
    if (state !== null && isAlive(state.qemu)) throw new SandglassError('START_FAILED', { id: spec.id, why: 'it already runs' })
    const record: MicrovmRecord = {
      backend: 'microvm',
      version: 1,
      id: spec.id,
      name: spec.name,
      image: spec.image.kind === 'host' ? 'host' : spec.image.reference,
      imageDisk: basename(this.#hostDisk ?? ''),
      token: randomBytes(32).toString('base64url'),
      memoryMb: spec.memoryMb,
      vcpus: Math.ceil(spec.cpuCores),
      diskMb: before?.diskMb ?? spec.diskMb,
      diskFile: before?.diskFile ?? diskFile(this.#options.diskFormat),
      readonlyRootfs: spec.readonlyRootfs,
      unenforced: [],
    }
    await writeRecord(folder, record)
    try {
      // What ended by itself, or with its daemon in the middle of a start, may have left something.
      await this.#end(spec.id, false)
      const deadline = AbortSignal.any([signal, AbortSignal.timeout(START_DEADLINE_MS)])
      return this.#machine(record, await this.#boot(host, spec, record, deadline))
    } catch (error) {
      await this.#end(spec.id, false)
      const said = await lastWords(this.#paths.bootLog(spec.id))
      if (before === null) await rm(folder, { recursive: true, force: true })
      else await writeRecord(folder, before)
      signal.throwIfAborted()
      if (error instanceof SandglassError) throw error
      const why = `${error instanceof Error ? error.message : String(error)}; the machine said: ${said}`
      throw new SandglassError(
        'START_FAILED',
        { id: spec.id, why: error instanceof KeeperError ? error.message : why },
        { cause: error },
      )
    }
  }

  async #boot(host: Host, spec: MachineSpec, record: MicrovmRecord, signal: AbortSignal): Promise<MachineState> {
    const folder = this.#paths.session(spec.id)
    const disk = join(folder, record.diskFile)
    const format = record.diskFile === 'disk.raw' ? 'raw' : 'qcow2'
    if (!existsSync(disk)) await createDisk(this.#paths.empty, host.disks, format, record.diskMb, disk)
    const sockets = this.#paths.sockets(spec.id)
    signal.throwIfAborted()
    await mkdir(this.#paths.run, { recursive: true, mode: 0o700 })
    const kept = await startKept(this.#options.runnerPath, spec.id, {
      argv: qemuArgs({
        qemu: host.qemu,
        arch: process.arch,
        id: spec.id,
        accel: host.accel,
        tscKhz: host.tscKhz,
        memoryMb: record.memoryMb,
        vcpus: record.vcpus,
        diskFormat: format,
        durable: spec.persist,
        nestedVirt: false,
        modules: [],
        extraArgs: this.#options.extraArgs,
        restore: false,
        bridged: false,
      }),
      files: [
        { path: host.boot.kernel, write: false },
        { path: host.boot.initramfs, write: false },
        { path: join(this.#paths.disks, record.imageDisk), write: false },
        { path: disk, write: true },
      ],
      sockets: [sockets.monitor, sockets.control, sockets.carrier],
      bridge: '',
      log: this.#paths.bootLog(spec.id),
      log_bytes: LOG_BYTES,
      uid: -1,
      gid: -1,
      supplementary_gid: -1,
      groups: [],
      rlimits: [],
    })
    return await this.#begin(spec, record, kept, signal)
  }

  async #begin(spec: MachineSpec, record: MicrovmRecord, kept: Kept, signal: AbortSignal): Promise<MachineState> {
    const state = { qemu: kept.qemu, keeper: kept.keeper }
    const config = guestConfig(spec, record.token, { layers: ['.'], user: 'sandbox' }, [], Buffer.alloc(0))
    await beginSession(this.#paths.sockets(spec.id).control, config, signal)
    await writeState(this.#paths.session(spec.id), state)
    kept.release()
    return state
  }

  /** Ends whatever runs under this id; resolves when no process and no socket of it is left. */
  async #end(id: string, orderly: boolean): Promise<void> {
    const folder = this.#paths.session(id)
    const state = await readState(folder)
    if (state !== null && isAlive(state.qemu)) {
      if (orderly) await this.#endOrderly(id, state)
      await end(state.qemu, END_DEADLINE_MS)
    }
    if (state !== null) await gone(state.keeper, END_DEADLINE_MS)
    for (const left of bearers(id)) await end(left, END_DEADLINE_MS)
    await removeState(folder)
    for (const socket of Object.values(this.#paths.sockets(id))) await rm(socket, { force: true })
  }

  async #endOrderly(id: string, state: MachineState): Promise<void> {
    const { control } = this.#paths.sockets(id)
    await askToEnd(control).catch(() => undefined) // one that does not listen is switched off
    await gone(state.qemu, ORDERLY_MS)
  }

  #machine(record: MicrovmRecord, state: MachineState): Machine {
    return microvmMachine(this.#paths, record, state, this.#ends)
  }

  /** SECURITY: with nothing to isolate with, nothing runs. */
  async #host(): Promise<Host> {
    const probe = await this.probe()
    if (this.#examined?.host) return this.#examined.host
    throw new SandglassError('BACKEND_UNAVAILABLE', { backend: this.name, why: `${probe.why}; ${probe.fix}` })
  }
}
