// The microvm backend: each machine is a QEMU virtual machine with its own kernel. boot/ starts machines, disks/ makes their disks, qemu/ runs and
// isolates QEMU, snapshots/ keeps memory snapshots.
import { randomBytes } from 'node:crypto'
import { mkdir, rm } from 'node:fs/promises'
import { availableParallelism } from 'node:os'
import type { Readable } from 'node:stream'
import { SandglassError } from '@sandglass/contract/tables'
import { KeyedMutex } from '../../lib/keyed-mutex.ts'
import { Semaphore } from '../../lib/semaphore.ts'
import type {
  Backend,
  DiskSpace,
  LayeredImage,
  Machine,
  MachineRequirements,
  MachineRoot,
  MachineSpec,
  Probe,
  TrustedCa,
} from '../backend.ts'
import { PromisedSpace } from '../disk/promised-space.ts'
import { openBootLog } from '../machine/boot-log.ts'
import { newEgressToken } from '../machine/egress-endpoint.ts'
import { isAlive } from '../machine/process-state.ts'
import { unsupported } from '../machine/refusals.ts'
import { keepLogAlone, sessionFolders } from '../machine/session-folders.ts'
import { pruneBoot } from './boot/boot-files.ts'
import { startFailure, startMachine } from './boot/start-machine.ts'
import { removeTemporaryFiles } from './cached-files.ts'
import { ImageDisks } from './disks/image-disks.ts'
import { PackageDisks } from './disks/package-disks.ts'
import { SessionDisks } from './disks/session-disk.ts'
import { SpareSpace } from './disks/spare-space.ts'
import { endMachine, microvmMachine, readLogEnd } from './machine.ts'
import { type MicrovmPaths, microvmPaths } from './paths.ts'
import { type Host, type HostProbe, type MicrovmOptions, probeHost } from './probe.ts'
import { MachineGroups } from './qemu/cgroups.ts'
import { MachineIds } from './qemu/machine-ids.ts'
import { type MachineState, type MicrovmRecord, readRecord, readState, writeRecord } from './record.ts'
import { refuseUnsupported } from './requirements.ts'
import { Snapshots } from './snapshots/snapshots.ts'

const START_DEADLINE_MS = 120_000

/** Cheap: the host is probed on first use. */
export function openMicrovm(options: MicrovmOptions): Backend {
  return new MicrovmBackend(options)
}

class MicrovmBackend implements Backend {
  readonly name = 'microvm'
  readonly #options: MicrovmOptions
  readonly #paths: MicrovmPaths
  readonly #mutex = new KeyedMutex()
  readonly #ids: MachineIds
  /** A boot keeps one processor busy, so more concurrent boots would only slow each other down. */
  readonly #starts = new Semaphore(availableParallelism())
  readonly #promised: PromisedSpace
  readonly #images: ImageDisks
  readonly #packages: PackageDisks
  readonly #disks: SessionDisks
  readonly #snapshots: Snapshots
  #isCleanedUp = false
  #probed: HostProbe | null = null
  #probing: Promise<HostProbe> | null = null
  #openedGroups: MachineGroups | null | undefined

  constructor(options: MicrovmOptions) {
    this.#options = options
    this.#paths = microvmPaths(options.dataDir)
    this.#ids = new MachineIds(options.dataDir)
    this.#promised = new PromisedSpace(this.#paths.sessions)
    const space = new SpareSpace(this.#paths.sessions, options.disk)
    const used = async () => new Set((await this.#records()).flatMap(record => record.disks))
    this.#images = new ImageDisks(this.#paths, options.runnerPath, space, used)
    this.#packages = new PackageDisks(this.#paths, space, used)
    this.#disks = new SessionDisks(this.#paths.empty)
    this.#snapshots = new Snapshots(this.#paths, options.runnerPath, this.#ids, this.#disks, space)
  }

  async probe(mayTakeSeconds = false): Promise<Probe> {
    return (await this.#probe(mayTakeSeconds)).probe
  }

  async checkRequirements(requirements: MachineRequirements): Promise<void> {
    if (requirements.runtime !== null)
      throw unsupported('an OCI runtime with microvm: a virtual machine has none', 'leave it out, or use --backend oci')
    // The KVM trial takes seconds. Requests that do not need KVM wait for it in prepare(), where progress is reported.
    const host = await this.#host(requirements.nestedVirt || this.#options.accel === 'kvm')
    await refuseUnsupported(host, this.#options, requirements)
  }

  async hasNested(): Promise<boolean> {
    return (await this.#host(true)).nested !== null
  }

  async prepare(root: MachineRoot, signal: AbortSignal, report: (step: string) => void = () => undefined): Promise<void> {
    if (this.#probed?.isComplete === false) report('trying whether KVM works, once per boot of this host')
    const host = await this.#host()
    await this.#images.prepare(host, root, signal, report)
    await this.#packages.prepare(host, root.packages ?? [], signal, report)
  }

  async pruneImages(kept: readonly LayeredImage[], _arriving: ReadonlySet<string>, trust?: TrustedCa): Promise<void> {
    await this.#images.prune(kept, trust)
    await this.#packages.prune()
    await this.#snapshots.prune()
    // Before the first probe it is unknown which boot files are in use.
    const boot = this.#probed?.host?.boot
    if (boot !== undefined) await pruneBoot(this.#paths.boot, boot)
  }

  async start(spec: MachineSpec, signal: AbortSignal): Promise<Machine> {
    return await this.#mutex.run(spec.id, async () => await this.#start(spec, signal))
  }

  async close(): Promise<void> {
    await this.#snapshots.close()
  }

  async recover(): Promise<Machine[]> {
    await this.#cleanUpOnce()
    const found: Machine[] = []
    for (const record of await this.#records()) {
      const state = await readState(this.#paths.session(record.id))
      if (state !== null && isAlive(state)) found.push(this.#machine(record, state))
    }
    return found
  }

  /** Only once: later, temporary files may be this daemon's own. */
  async #cleanUpOnce(): Promise<void> {
    if (this.#isCleanedUp) return
    this.#isCleanedUp = true
    await this.#snapshots.endLeftovers(() => this.#groups())
    await removeTemporaryFiles(this.#paths)
  }

  async sessionIds(): Promise<string[]> {
    await mkdir(this.#paths.sessions, { recursive: true, mode: 0o700 })
    return (await sessionFolders(this.#paths.sessions, this.name)).filter(this.#paths.isId)
  }

  async diskSpace(isFresh?: boolean): Promise<DiskSpace> {
    return await this.#promised.read(isFresh)
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
    await this.checkRequirements(spec)
    const image = await this.#images.prepare(host, spec, signal, () => undefined)
    const packages = await this.#packages.prepare(host, spec.packages, signal, () => undefined)
    const folder = this.#paths.session(spec.id)
    const [before, state] = await Promise.all([readRecord(folder), readState(folder)])
    if (state !== null && isAlive(state)) throw new SandglassError('START_FAILED', { id: spec.id, why: 'it is already running' })
    // A machine that ended by itself, or a start that was interrupted, may have left processes or files.
    if (before !== null) await this.#end(spec.id, false)
    const used = [image.image, image.overlay, ...packages.map(({ disk }) => disk)]
    const record = await this.#newRecord(host, spec, used, before)
    await writeRecord(folder, record)
    try {
      const [paths, options, disks, snapshots] = [this.#paths, this.#options, this.#disks, this.#snapshots]
      const start = { host, paths, options, disks, snapshots, spec, record, image, packages }
      const state = await this.#starts.run(async () => {
        return await startMachine(start, AbortSignal.any([signal, AbortSignal.timeout(START_DEADLINE_MS)]))
      })
      return this.#machine(record, state)
    } catch (error) {
      await this.#end(spec.id, false)
      const { text: logEnd } = await readLogEnd(this.#paths.bootLog(spec.id))
      this.#ids.release(spec.id)
      if (before !== null) await writeRecord(folder, before)
      else if (signal.aborted) await rm(folder, { recursive: true, force: true })
      else await keepLogAlone(folder)
      signal.throwIfAborted()
      throw startFailure(spec.id, error, logEnd)
    }
  }

  async #newRecord(host: Host, spec: MachineSpec, disks: string[], before: MicrovmRecord | null): Promise<MicrovmRecord> {
    const others = (await this.#records()).filter(record => record.id !== spec.id)
    const taken = others.map(record => record.jailId)
    return {
      backend: 'microvm',
      version: 1,
      id: spec.id,
      name: spec.name,
      image: spec.image.kind === 'host' ? 'host' : spec.image.reference,
      disks,
      token: randomBytes(32).toString('base64url'),
      egressToken: spec.egress ? newEgressToken() : null,
      diskMb: before?.diskMb ?? spec.diskMb,
      diskFormat: before?.diskFormat ?? this.#options.diskFormat,
      jailId: host.jailIds === null ? null : this.#ids.claim(spec.id, host.jailIds, taken),
      group: host.groups?.newName() ?? null,
      unenforced: [],
    }
  }

  async #records(): Promise<MicrovmRecord[]> {
    const records = await Promise.all((await this.sessionIds()).map(id => readRecord(this.#paths.session(id))))
    return records.filter(record => record !== null)
  }

  async #end(id: string, orderly: boolean): Promise<void> {
    await endMachine(this.#paths, this.#groups(), id, orderly)
  }

  #machine(record: MicrovmRecord, state: MachineState): Machine {
    return microvmMachine(this.#paths, this.#groups(), record, state, this.#ends)
  }

  /** Opened on first use and separately from the probe, because ending a machine does not need the probe. */
  #groups(): MachineGroups | null {
    if (this.#openedGroups === undefined) this.#openedGroups = MachineGroups.open(this.#options.dataDir)
    return this.#openedGroups
  }

  /** Probes again while the backend is unavailable, so that an installation needs no restart of the daemon. */
  async #probe(mayTakeSeconds: boolean): Promise<HostProbe> {
    const known = this.#probed
    if (known?.host && (known.isComplete || !mayTakeSeconds)) return known
    // Concurrent callers share one probe.
    this.#probing ??= this.#runProbe(mayTakeSeconds).finally(() => {
      this.#probing = null
    })
    this.#probed = await this.#probing
    const { host, isComplete } = this.#probed
    return host !== null && !isComplete && mayTakeSeconds ? await this.#probe(true) : this.#probed
  }

  async #runProbe(mayTakeSeconds: boolean): Promise<HostProbe> {
    const groups = this.#groups()
    const known = (await this.#records()).map(record => record.group)
    await groups?.removeLost(new Set([...known, this.#snapshots.group].filter(name => name !== null)))
    return await probeHost(this.#options, this.#paths, groups, mayTakeSeconds)
  }

  /** SECURITY: no machine starts on a host that cannot isolate it. */
  async #host(mayTakeSeconds = true): Promise<Host> {
    const { host, probe } = await this.#probe(mayTakeSeconds)
    if (host !== null) return host
    throw new SandglassError('BACKEND_UNAVAILABLE', { backend: this.name, why: `${probe.why}; ${probe.fix}` })
  }
}
