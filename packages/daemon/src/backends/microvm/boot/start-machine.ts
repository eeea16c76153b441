// Booting: the kernel, the initramfs, the KVM trial, and this file, which starts one machine: from a snapshot if there is one, else by booting. After a boot it requests a snapshot for the next start.
import { existsSync } from 'node:fs'
import { mkdir, stat } from 'node:fs/promises'
import { join } from 'node:path'
import { SandglassError } from '@sandglass/contract/tables'
import type { MachineSpec } from '../../backend.ts'
import { launcherBeside } from '../../launcher/program.ts'
import { makeEgressSocketFolder } from '../../machine/egress-endpoint.ts'
import type { ImageDisk } from '../disks/image-disks.ts'
import type { PackageDisk } from '../disks/package-disks.ts'
import { diskFile, type SessionDisks } from '../disks/session-disk.ts'
import { endMachine } from '../machine.ts'
import type { MicrovmPaths } from '../paths.ts'
import type { Host, MicrovmOptions } from '../probe.ts'
import { ConnectionClosed } from '../qemu/json-lines.ts'
import { SupervisorError, startSupervised } from '../qemu/launcher.ts'
import { guestShares } from '../qemu/shares.ts'
import { vmJob } from '../qemu/vm-job.ts'
import { type MachineState, type MicrovmRecord, writeState } from '../record.ts'
import type { Shape, Snapshots } from '../snapshots/snapshots.ts'
import { beginSession } from './control-port.ts'
import { guestConfig } from './guest-config.ts'

export interface Start {
  readonly host: Host
  readonly paths: MicrovmPaths
  readonly options: MicrovmOptions
  readonly disks: SessionDisks
  readonly snapshots: Snapshots
  readonly spec: MachineSpec
  readonly record: MicrovmRecord
  readonly image: ImageDisk
  readonly packages: readonly PackageDisk[]
}

export async function startMachine(start: Start, signal: AbortSignal): Promise<MachineState> {
  const { host, paths, disks, snapshots, spec, record } = start
  const disk = diskPath(start)
  if (!existsSync(disk)) await disks.create(host.disks, record.diskFormat, record.diskMb, disk)
  const shape = await shapeOf(start)
  // virtiofsd and the network have state outside the snapshot.
  const canSnapshot = spec.mounts.length === 0 && spec.network === 'none'
  const snapshot = canSnapshot ? await snapshots.find(host, shape) : null
  if (snapshot !== null) {
    try {
      return await run(start, shape, snapshot, signal)
    } catch (error) {
      signal.throwIfAborted()
      if (!(error instanceof Error)) throw error
      // The snapshot does not work on this host: boot without it.
      await endMachine(paths, host.groups, spec.id, false)
      await snapshots.remove(host, shape)
    }
  }
  const state = await run(start, shape, null, signal)
  if (canSnapshot) snapshots.request(host, shape)
  return state
}

async function run(start: Start, shape: Shape, snapshot: string | null, signal: AbortSignal): Promise<MachineState> {
  const { host, paths, options, spec, record, image } = start
  const { id } = spec
  const sockets = paths.sockets(id)
  signal.throwIfAborted()
  await mkdir(paths.run, { recursive: true, mode: 0o700 })
  if (spec.egress) await makeEgressSocketFolder(paths.dataDir)
  const job = vmJob(host, paths, {
    id,
    shape,
    disk: diskPath(start),
    durable: spec.persist,
    sockets,
    log: paths.bootLog(id),
    readAhead: false,
    snapshot,
    jailId: record.jailId,
    groups: record.group === null ? [] : (host.groups?.enter(record.group, spec) ?? []),
    bridge: spec.network === 'bridge' ? (options.bridge ?? '') : '',
    mounts: spec.mounts,
    shareProto: options.shareProto,
  })
  const started = await startSupervised(launcherBeside(options.runnerPath), id, job)
  const shares = guestShares(options.shareProto, spec.mounts)
  await beginSession(sockets.control, guestConfig(spec, record, image.user, shares, record.group === null), signal)
  if (record.group !== null) host.groups?.limitCpu(record.group, spec)
  const state = { ...started.qemu, supervisor: started.supervisor }
  await writeState(paths.session(id), state)
  started.release()
  return state
}

const diskPath = ({ paths, record }: Start) => join(paths.session(record.id), diskFile(record.diskFormat))

async function shapeOf({ host, paths, options, spec, record, image, packages }: Start): Promise<Shape> {
  const names = [image.image, image.overlay, ...packages.map(({ disk }) => disk)]
  const disks = await Promise.all(names.map(name => stat(join(paths.disks, name))))
  const nested = spec.nestedVirt ? host.nested : null
  return {
    imageDisk: image.image,
    overlayDisk: image.overlay,
    disksMadeMs: disks.map(({ mtimeMs }) => mtimeMs),
    layers: image.layers,
    packages,
    memoryMb: spec.memoryMb,
    vcpus: Math.ceil(spec.cpuCores),
    diskMb: record.diskMb,
    diskFormat: record.diskFormat,
    nestedVirt: nested !== null,
    egress: spec.egress,
    modules: [
      ...(nested === null ? [] : [nested]),
      ...(spec.mounts.length > 0 ? [options.shareProto] : []),
      ...(spec.network === 'bridge' ? ['net'] : []),
    ],
    extraArgs: options.extraArgs,
  }
}

/** `logEnd` is the end of the boot log. */
export function startFailure(id: string, error: unknown, logEnd: string): SandglassError {
  if (error instanceof SandglassError) return error
  return new SandglassError('START_FAILED', { id, why: reason(error, logEnd) }, { cause: error })
}

function reason(error: unknown, logEnd: string): string {
  if (error instanceof SupervisorError) return error.message
  const isLate = error instanceof DOMException && error.name === 'TimeoutError'
  const message = error instanceof Error ? error.message : String(error)
  const what = isLate ? 'it was not ready in time' : error instanceof ConnectionClosed ? 'it ended before it was ready' : message
  return `${what}; the boot log ends with: ${logEnd}`
}
