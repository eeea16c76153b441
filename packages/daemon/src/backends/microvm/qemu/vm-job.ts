// What the keeper is told to start a machine: the files it may use, and how it is shut in.
import { join } from 'node:path'
import type { HostMount } from '../../backend.ts'
import type { MicrovmPaths, Sockets } from '../paths.ts'
import type { Host } from '../probe.ts'
import type { Shape } from '../snapshots/snapshots.ts'
import { jailOf, QEMU_RLIMITS } from './jail.ts'
import type { VmJob } from './launcher.ts'
import { qemuArgs } from './qemu-args.ts'
import { type ShareProto, vmShares } from './shares.ts'

/** Of each of the log's two halves, its beginning and its end. */
const LOG_BYTES = 256 * 1024

export interface VmInput {
  readonly id: string
  readonly shape: Shape
  readonly disk: string
  readonly durable: boolean
  readonly sockets: Sockets
  readonly log: string
  /** Whether a snapshot is to be made of it. */
  readonly readAhead: boolean
  /** File to go on from, or null to boot. */
  readonly snapshot: string | null
  /** Whom QEMU runs as; null where there is no jail. */
  readonly jailId: number | null
  readonly groups: VmJob['groups']
  /** Host bridge to join, or ''. */
  readonly bridge: string
  readonly mounts: readonly HostMount[]
  readonly shareProto: ShareProto
}

export function vmJob(host: Host, paths: MicrovmPaths, input: VmInput): VmJob {
  const { shape, snapshot, sockets, jailId, mounts, shareProto } = input
  return {
    argv: qemuArgs({
      ...shape,
      qemu: host.qemu,
      arch: process.arch,
      id: input.id,
      accel: host.accel,
      tscKhz: host.tscKhz,
      durable: input.durable,
      restore: snapshot !== null,
      readAhead: input.readAhead,
      bridged: input.bridge !== '',
      shares: mounts.length,
      shareProto,
    }),
    files: [
      { path: kernelFor(host), write: false },
      { path: host.boot.initramfs, write: false },
      { path: join(paths.disks, shape.imageDisk), write: false },
      { path: join(paths.disks, shape.overlayDisk), write: false },
      { path: input.disk, write: true },
      ...(snapshot === null ? [] : [{ path: snapshot, write: false }]),
    ],
    sockets: [sockets.monitor, sockets.control, sockets.carrier],
    bridge: input.bridge,
    shares: jailId === null || mounts.length === 0 ? undefined : vmShares(host, paths, shareProto, mounts, jailId),
    share_socket: sockets.share,
    log: input.log,
    log_bytes: LOG_BYTES,
    jail: jailId === null ? undefined : jailOf(paths, host.qemu, jailId, host.accel === 'kvm'),
    groups: input.groups,
    rlimits: QEMU_RLIMITS,
  }
}

/**
 * SECURITY: only a kernel that unpacks itself chooses other addresses at each boot. Where the processor does the work, that costs little and is
 * kept; machines that go on from one snapshot have the same ones in any case.
 */
const kernelFor = ({ accel, boot }: Host) => (accel === 'tcg' ? boot.plainKernel : null) ?? boot.kernel
