// One start of a machine: claim its user ids, let the launcher start it, and undo everything when that fails.
import { randomBytes } from 'node:crypto'
import { existsSync } from 'node:fs'
import { rm } from 'node:fs/promises'
import { SandglassError } from '@sandglass/contract/tables'
import type { LimitKind, MachineSpec } from '../backend.ts'
import { makeEgressSocketFolder, newEgressToken } from '../machine/egress-endpoint.ts'
import { isAlive } from '../machine/process-state.ts'
import type { Ending } from './launcher/ending.ts'
import { hasLeft, preparation, runtimeArgv, type StartInput, savedFiles, startJob } from './launcher/jobs.ts'
import { isLaunchFailure, LaunchError, type Launcher } from './launcher/launcher.ts'
import type { OciPaths } from './paths.ts'
import type { Host } from './probe.ts'
import { type MachineRecord, type MachineState, readRecord, readState, writeRecord } from './record.ts'
import type { EmptyDisks } from './rootfs/disks.ts'
import { programFolder } from './rootfs/programs.ts'
import type { Rootfs, RootImages } from './rootfs/root-images.ts'
import type { CompiledSeccomp } from './runtime/compiled-seccomp.ts'
import { seccompFor } from './runtime/profile.ts'
import type { IdSlots } from './users/id-ranges.ts'

/** What a start needs of the backend. */
export interface StartContext {
  /** With the runtime that the session asks for. */
  readonly host: Host
  /** Whether that is the default runtime, which the waiting launcher has prepared for. */
  readonly isDefaultRuntime: boolean
  /** Limits that the machine goes without. */
  readonly unenforced: readonly LimitKind[]
  readonly paths: OciPaths
  readonly launcher: Launcher
  readonly ending: Ending
  readonly images: RootImages
  readonly slots: IdSlots
  /** Null where disks are in memory. */
  readonly disks: EmptyDisks | null
  readonly compiled: CompiledSeccomp
  readonly runnerFile: string
}

export interface Started {
  readonly record: MachineRecord
  readonly state: MachineState
}

const START_DEADLINE_MS = 30_000

export async function startMachine(context: StartContext, spec: MachineSpec, signal: AbortSignal): Promise<Started> {
  const { host, paths, slots } = context
  const rootfs = await context.images.rootfs(host, spec, signal)
  const before = await endPrevious(context, spec.id)
  const slot = before?.slot ?? slots.take()
  if (slot === null) throw new SandglassError('HOST_FULL', { what: `all ${host.pool.slots} blocks of user ids are taken` })
  if (spec.egress) await makeEgressSocketFolder(paths.dataDir)
  const record = newRecord(context, spec, rootfs, slot, before)
  // The launcher names the cgroups; until it has, nothing of this attempt exists.
  let group = ''
  try {
    return await launch(context, spec, rootfs, record, signal, name => {
      group = name
    })
  } catch (error) {
    context.compiled.forget(host)
    if (group !== '') await context.ending.end(host, spec.id, { ...record, group }, false)
    if (before !== null) await writeRecord(paths.session(spec.id), before)
    else {
      await rm(paths.session(spec.id), { recursive: true, force: true })
      slots.release(slot)
    }
    signal.throwIfAborted()
    if (!isLaunchFailure(error)) throw error
    throw new SandglassError('START_FAILED', { id: spec.id, why: error.message }, { cause: error })
  }
}

/** Ends what is left of an earlier run that exited by itself or whose daemon was killed. Returns its record, or null for a first start. */
async function endPrevious({ host, paths, ending }: StartContext, id: string): Promise<MachineRecord | null> {
  const folder = paths.session(id)
  if (!existsSync(folder)) return null
  const [before, state] = await Promise.all([readRecord(folder), readState(folder)])
  if (state !== null && isAlive(state)) throw new SandglassError('START_FAILED', { id, why: 'it already runs' })
  if (before !== null && (state !== null || hasLeft(host, paths, before))) await ending.end(host, id, before, true)
  return before
}

function newRecord(
  { host, paths, runnerFile, unenforced }: StartContext,
  spec: MachineSpec,
  rootfs: Rootfs,
  slot: number,
  before: MachineRecord | null,
): Omit<MachineRecord, 'group'> {
  return {
    version: 1,
    id: spec.id,
    name: spec.name,
    image: spec.image.kind,
    rootfs: rootfs.name,
    runner: programFolder(runnerFile),
    slot,
    token: randomBytes(32).toString('base64url'),
    egressToken: spec.egress ? newEgressToken() : null,
    runtime: runtimeArgv(host, paths),
    hiddenMounts: [...host.hiddenMounts],
    readonlyRootfs: spec.readonlyRootfs,
    ownKernel: host.kind === 'runsc',
    diskMb: before?.diskMb ?? spec.diskMb,
    unenforced: [...unenforced],
  }
}

async function launch(
  context: StartContext,
  spec: MachineSpec,
  rootfs: Rootfs,
  record: Omit<MachineRecord, 'group'>,
  signal: AbortSignal,
  onGroup: (name: string) => void,
): Promise<Started> {
  const { host, paths, launcher, compiled, isDefaultRuntime } = context
  const input = await startInput(context, spec, rootfs, record.diskMb)
  const deadline = AbortSignal.any([signal, AbortSignal.timeout(START_DEADLINE_MS)])
  let whole: MachineRecord = { ...record, group: '' }
  const job = (group: string) => {
    onGroup(group)
    whole = { ...record, group }
    return startJob(host, paths, { ...input, record: whole })
  }
  const unprepared = (group: string) => preparation(host, paths, group, null, null)
  const { state, filter } = await launcher.start(job, deadline, isDefaultRuntime ? undefined : unprepared)
  if (state === undefined) throw new LaunchError('the launcher gave no state')
  if (filter !== undefined) compiled.keep(host, Buffer.from(filter, 'base64'))
  return { record: whole, state }
}

async function startInput(
  { host, paths, disks, compiled, runnerFile }: StartContext,
  spec: MachineSpec,
  rootfs: Rootfs,
  diskMb: number,
): Promise<Omit<StartInput, 'record'>> {
  const tar = savedFiles(paths, spec.id)
  return {
    spec,
    rootfs,
    runnerFile,
    emptyDisk: disks === null ? null : await disks.path(diskMb),
    saved: host.mkfs === null && existsSync(tar) ? tar : null,
    seccomp: seccompFor(host),
    compiledSeccomp: compiled.get(host),
    // The launcher reads the filter that runc compiled from the kernel, which shows it to root only.
    wantFilter: compiled.wants(host) && (host.kind === 'crun' || !host.rootless),
  }
}
