// The job of a machine's supervisor: the files that QEMU may use, and its jail.
import { join } from 'node:path'
import type { HostMount } from '../../backend.ts'
import type { VmJob } from '../../launcher/schema.ts'
import { egressSocket } from '../../machine/egress-endpoint.ts'
import type { MicrovmPaths, Sockets } from '../paths.ts'
import type { Host } from '../probe.ts'
import type { Shape } from '../snapshots/snapshots.ts'
import { qemuArgs } from './command-line.ts'
import { jailOf, QEMU_RLIMITS } from './jail.ts'
import { type ShareProto, sharesJob } from './shares.ts'

/** Size of each half of the boot log: its beginning and its end. */
const LOG_BYTES = 256 * 1024

export interface VmInput {
  readonly id: string
  readonly shape: Shape
  readonly disk: string
  readonly durable: boolean
  readonly sockets: Sockets
  readonly log: string
  /** True if a snapshot will be taken of the machine. */
  readonly readAhead: boolean
  /** Snapshot to restore, or null to boot. */
  readonly snapshot: string | null
  /** User and group of QEMU; null without a jail. */
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
      packages: shape.packages.map(({ name }) => name),
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
      ...shape.packages.map(({ disk }) => ({ path: join(paths.disks, disk), write: false })),
      ...(snapshot === null ? [] : [{ path: snapshot, write: false }]),
    ],
    sockets: [sockets.monitor, sockets.control, sockets.carrier],
    egress_socket: shape.egress ? egressSocket(paths.dataDir, sockets.egress) : null,
    bridge: input.bridge,
    shares: jailId === null || mounts.length === 0 ? undefined : sharesJob(host, paths, shareProto, mounts, jailId),
    share_socket: sockets.share,
    log: input.log,
    log_bytes: LOG_BYTES,
    jail: jailId === null ? undefined : jailOf(paths, host.qemu, jailId, host.accel === 'kvm'),
    groups: input.groups,
    rlimits: QEMU_RLIMITS,
  }
}

/**
 * SECURITY: only a kernel that unpacks itself randomizes its addresses at each boot. With KVM that costs little, so such a kernel is used.
 * Machines that are restored from one snapshot have the same addresses in any case.
 */
const kernelFor = ({ accel, boot }: Host) => (accel === 'tcg' ? boot.plainKernel : null) ?? boot.kernel
