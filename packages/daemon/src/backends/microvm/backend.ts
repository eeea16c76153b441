// Machines as virtual machines of QEMU, each with a kernel of its own.
import { randomBytes } from 'node:crypto'
import { mkdir, rm } from 'node:fs/promises'
import { availableParallelism } from 'node:os'
import type { Readable } from 'node:stream'
import { SandglassError } from '@sandglass/contract/tables'
import { KeyedMutex } from '../../lib/keyed-mutex.ts'
import { Semaphore } from '../../lib/semaphore.ts'
import type { Backend, LayeredImage, Machine, MachineSpec, MachineWishes, Probe, Room, RootImage } from '../backend.ts'
import { DiskRoom } from '../disk/promised-space.ts'
import { openBootLog } from '../machine/boot-log.ts'
import { isAlive } from '../machine/process-state.ts'
import { keepLogAlone, sessionFolders } from '../machine/session-folders.ts'
import { unsupported } from '../machine/unsupported.ts'
import { refuseNested } from './boot/accel.ts'
import { pruneBoot } from './boot/boot-files.ts'
import { lastWords } from './boot/boot-log.ts'
import { bringUp, startFailure } from './boot/bring-up.ts'
import { type ImageDisk, ImageDisks } from './disks/image-disks.ts'
import { SessionDisks } from './disks/session-disk.ts'
import { SpareRoom } from './disks/spare-space.ts'
import { removeHalfMade } from './disks/temporary-name.ts'
import { endMachine } from './ending.ts'
import { microvmMachine } from './machine.ts'
import { type MicrovmPaths, microvmPaths } from './paths.ts'
import { type Examined, examine, type Host, type MicrovmOptions } from './probe.ts'
import { refuseBridge } from './qemu/bridge.ts'
import { MachineGroups } from './qemu/cgroups.ts'
import { MachineIds } from './qemu/machine-ids.ts'
import { refuseShares } from './qemu/shares.ts'
import { type MachineState, type MicrovmRecord, readRecord, readState, writeRecord } from './record.ts'
import { Snapshots } from './snapshots/snapshots.ts'

const START_DEADLINE_MS = 120_000

/** Cheap: nothing is looked for before it is needed. */
export function openMicrovm(options: MicrovmOptions): Backend {
  return new MicrovmBackend(options)
}

class MicrovmBackend implements Backend {
  readonly name = 'microvm'
  readonly #options: MicrovmOptions
  readonly #paths: MicrovmPaths
  readonly #mutex = new KeyedMutex()
  readonly #ids: MachineIds
  /** A boot keeps a processor busy: more at once would only make each slower. */
  readonly #starts = new Semaphore(availableParallelism())
  readonly #room: DiskRoom
  readonly #images: ImageDisks
  readonly #disks: SessionDisks
  readonly #snapshots: Snapshots
  #isTidied = false
  #examined: Examined | null = null
  #looking: Promise<Examined> | null = null
  #foundGroups: MachineGroups | null | undefined

  constructor(options: MicrovmOptions) {
    this.#options = options
    this.#paths = microvmPaths(options.dataDir)
    this.#ids = new MachineIds(options.dataDir)
    this.#room = new DiskRoom(this.#paths.sessions)
    const spare = new SpareRoom(this.#paths.sessions, options.disk)
    this.#images = new ImageDisks(this.#paths, options.runnerPath, spare, async () => {
      return new Set((await this.#records()).flatMap(record => record.disks))
    })
    this.#disks = new SessionDisks(this.#paths.empty)
    this.#snapshots = new Snapshots(this.#paths, options.runnerPath, this.#ids, this.#disks, spare)
  }

  async probe(mayTakeSeconds = false): Promise<Probe> {
    return (await this.#examine(mayTakeSeconds)).probe
  }

  async refuse({ mounts, nestedVirt, network, runtime }: MachineWishes): Promise<void> {
    if (runtime !== null)
      throw unsupported('an OCI runtime with microvm: a virtual machine has none', 'leave it out, or use --backend oci')
    // Whether KVM works takes seconds to find out. Whoever asks for nothing that needs it is told of that while the image is prepared.
    const host = await this.#host(nestedVirt || this.#options.accel === 'kvm')
    if (nestedVirt) refuseNested(host)
    await refuseShares(host, this.#options.shareProto, mounts)
    refuseBridge(host, this.#options.bridge, network)
  }

  async hasNested(): Promise<boolean> {
    return (await this.#host(true)).nested !== null
  }

  async prepare(image: RootImage, signal: AbortSignal, say: (step: string) => void = () => undefined): Promise<void> {
    if (this.#examined?.isWhole === false) say('trying whether KVM works here, once for each boot of this host')
    await this.#images.prepare(await this.#host(), image, signal, say)
  }

  async pruneImages(kept: readonly LayeredImage[]): Promise<void> {
    await this.#images.prune(kept)
    await this.#snapshots.prune()
    // Before anybody has asked for them, which are in use is not known.
    const boot = this.#examined?.host?.boot
    if (boot !== undefined) await pruneBoot(this.#paths.boot, boot)
  }

  async start(spec: MachineSpec, signal: AbortSignal): Promise<Machine> {
    return await this.#mutex.run(spec.id, async () => await this.#start(spec, signal))
  }

  async close(): Promise<void> {
    await this.#snapshots.close()
  }

  async recover(): Promise<Machine[]> {
    await this.#tidyOnce()
    const found: Machine[] = []
    for (const record of await this.#records()) {
      const state = await readState(this.#paths.session(record.id))
      if (state !== null && isAlive(state)) found.push(this.#machine(record, state))
    }
    return found
  }

  /** When it is asked again, what is half made may be this daemon's own. */
  async #tidyOnce(): Promise<void> {
    if (this.#isTidied) return
    this.#isTidied = true
    await this.#snapshots.endLeft(() => this.#groups())
    await removeHalfMade(this.#paths)
  }

  async residents(): Promise<string[]> {
    await mkdir(this.#paths.sessions, { recursive: true, mode: 0o700 })
    return (await sessionFolders(this.#paths.sessions, this.name)).filter(this.#paths.isId)
  }

  async room(isFresh?: boolean): Promise<Room> {
    return await this.#room.read(isFresh)
  }

  bootLog(id: string): Promise<Readable | null> {
    return openBootLog(this.#paths.bootLog(id))
  }

  async discard(id: string): Promise<void> {
    await this.#mutex.run(id, async () => {
      await this.#end(id, false)
      await rm(this.#paths.session(id), { recursive: true, force: true })
      this.#ids.release(id)
    })
  }

  readonly #ends = {
    stop: async (id: string) => {
      await this.#mutex.run(id, () => this.#end(id, true))
    },
    discard: (id: string) => this.discard(id),
  }

  async #start(spec: MachineSpec, signal: AbortSignal): Promise<Machine> {
    const host = await this.#host()
    await this.refuse(spec)
    const image = await this.#images.prepare(host, spec.image, signal, () => undefined)
    const folder = this.#paths.session(spec.id)
    const [before, state] = await Promise.all([readRecord(folder), readState(folder)])
    if (state !== null && isAlive(state)) throw new SandglassError('START_FAILED', { id: spec.id, why: 'it already runs' })
    // What ended by itself, or with its daemon in the middle of a start, may have left something.
    if (before !== null) await this.#end(spec.id, false)
    const record = await this.#newRecord(host, spec, image, before)
    await writeRecord(folder, record)
    try {
      const [paths, options, disks, snapshots] = [this.#paths, this.#options, this.#disks, this.#snapshots]
      const start = { host, paths, options, disks, snapshots, spec, record, image }
      const state = await this.#starts.run(async () => {
        return await bringUp(start, AbortSignal.any([signal, AbortSignal.timeout(START_DEADLINE_MS)]))
      })
      return this.#machine(record, state)
    } catch (error) {
      await this.#end(spec.id, false)
      const said = await lastWords(this.#paths.bootLog(spec.id))
      this.#ids.release(spec.id)
      if (before !== null) await writeRecord(folder, before)
      else if (signal.aborted) await rm(folder, { recursive: true, force: true })
      else await keepLogAlone(folder)
      signal.throwIfAborted()
      throw startFailure(spec.id, error, said)
    }
  }

  async #newRecord(host: Host, spec: MachineSpec, image: ImageDisk, before: MicrovmRecord | null): Promise<MicrovmRecord> {
    const others = (await this.#records()).filter(record => record.id !== spec.id)
    const taken = others.map(record => record.jailId)
    return {
      backend: 'microvm',
      version: 1,
      id: spec.id,
      name: spec.name,
      image: spec.image.kind === 'host' ? 'host' : spec.image.reference,
      disks: [image.image, image.top],
      token: randomBytes(32).toString('base64url'),
      diskMb: before?.diskMb ?? spec.diskMb,
      diskFormat: before?.diskFormat ?? this.#options.diskFormat,
      jailId: host.jailIds === null ? null : this.#ids.claim(spec.id, host.jailIds, taken),
      group: host.groups?.newName() ?? null,
      unenforced: [],
    }
  }

  async #records(): Promise<MicrovmRecord[]> {
    const records = await Promise.all((await this.residents()).map(id => readRecord(this.#paths.session(id))))
    return records.filter(record => record !== null)
  }

  async #end(id: string, orderly: boolean): Promise<void> {
    await endMachine(this.#paths, this.#groups(), id, orderly)
  }

  #machine(record: MicrovmRecord, state: MachineState): Machine {
    return microvmMachine(this.#paths, this.#groups(), record, state, this.#ends)
  }

  /** Looked for when first needed, and without the rest: ending a machine needs less than starting one. */
  #groups(): MachineGroups | null {
    if (this.#foundGroups === undefined) this.#foundGroups = MachineGroups.open(this.#options.dataDir)
    return this.#foundGroups
  }

  /** Looks again while nothing could be used, so that installing what is missing needs no restart. */
  async #examine(mayTakeSeconds: boolean): Promise<Examined> {
    const known = this.#examined
    if (known?.host && (known.isWhole || !mayTakeSeconds)) return known
    // Those who ask at the same time wait for the same look.
    this.#looking ??= this.#look(mayTakeSeconds).finally(() => {
      this.#looking = null
    })
    this.#examined = await this.#looking
    const { host, isWhole } = this.#examined
    return host !== null && !isWhole && mayTakeSeconds ? await this.#examine(true) : this.#examined
  }

  async #look(mayTakeSeconds: boolean): Promise<Examined> {
    const groups = this.#groups()
    const known = (await this.#records()).map(record => record.group)
    await groups?.removeLost(new Set([...known, this.#snapshots.group].filter(name => name !== null)))
    return await examine(this.#options, this.#paths, groups, mayTakeSeconds)
  }

  /** SECURITY: with nothing to isolate with, nothing runs. */
  async #host(mayTakeSeconds = true): Promise<Host> {
    const { host, probe } = await this.#examine(mayTakeSeconds)
    if (host !== null) return host
    throw new SandglassError('BACKEND_UNAVAILABLE', { backend: this.name, why: `${probe.why}; ${probe.fix}` })
  }
}
