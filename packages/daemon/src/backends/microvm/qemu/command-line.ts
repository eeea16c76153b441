// Running QEMU: its command line (this file), jail, cgroups, monitor and shared folders.
// QEMU gets every file and socket as an open descriptor, so it needs access to no path.
import type { DiskFormat } from '../disks/session-disk.ts'
import { type ShareProto, tagOf } from './shares.ts'

export type Accel = 'kvm' | 'tcg'

export interface QemuInput {
  readonly qemu: string
  readonly arch: NodeJS.Architecture
  readonly id: string
  readonly accel: Accel
  /** Frequency of the host's time stamp counter, for emulated x64 machines; 0 if it is not used. */
  readonly tscKhz: number
  readonly memoryMb: number
  readonly vcpus: number
  readonly diskFormat: DiskFormat
  /** Whether the guest's flushes reach the host's disk. */
  readonly durable: boolean
  readonly nestedVirt: boolean
  /** Number of layer folders on the image's disk; 0 if the disk itself is the only layer. */
  readonly layers: number
  /** Names of packages, each on a disk of its own. */
  readonly packages: readonly string[]
  /** Module sets in addition to the base set. */
  readonly modules: readonly string[]
  readonly extraArgs: readonly string[]
  readonly restore: boolean
  /** The guest reads the files of a shell into its page cache, so that a snapshot includes them. */
  readonly readAhead: boolean
  /** The machine has a port for the egress process. */
  readonly egress: boolean
  readonly bridged: boolean
  /** Number of shared folders. */
  readonly shares: number
  readonly shareProto: ShareProto
}

/** Descriptors in the order of the supervisor's job, from 3 on. Those of packages follow, then the snapshot. */
const FILES = { kernel: 3, initramfs: 4, image: 5, top: 6, disk: 7 } as const
const FIRST_PACKAGE = 8
/** Monitor, control and carrier; the socket for egress follows them. */
const SOCKETS = 3

const COMMON = [
  ...['-nodefaults', '-no-user-config', '-nographic', '-no-reboot'],
  // SECURITY: QEMU's own seccomp filter denies new processes, higher privileges, and obsolete system calls.
  ...['-sandbox', 'on,obsolete=deny,elevateprivileges=deny,spawn=deny,resourcecontrol=deny'],
]
const CONSOLE = ['-chardev', 'stdio,id=console,signal=off', '-serial', 'chardev:console']
const consoleOf = (arch: NodeJS.Architecture) => (arch === 'arm64' ? 'ttyAMA0' : 'ttyS0')

/**
 * The session's limit plus memory for the guest kernel. With too little for the kernel, the guest would evict and reload the pages of its programs
 * before the session reaches its limit.
 */
export function guestMemoryMb(memoryMb: number): number {
  return memoryMb + 128 + Math.ceil(memoryMb / 32)
}

export function qemuArgs(input: QemuInput): string[] {
  const snapshot = FIRST_PACKAGE + input.packages.length
  const firstSocket = input.restore ? snapshot + 1 : snapshot
  const afterSockets = firstSocket + SOCKETS + (input.egress ? 1 : 0)
  return [
    ...[input.qemu, ...COMMON, '-name', input.id],
    ...['-M', machine(input), '-accel', accel(input.accel), '-cpu', cpu(input)],
    ...['-m', String(guestMemoryMb(input.memoryMb)), '-smp', String(input.vcpus)],
    ...['-kernel', `/dev/fd/${FILES.kernel}`, '-initrd', `/dev/fd/${FILES.initramfs}`, '-append', kernelArgs(input)],
    ...CONSOLE,
    ...['-chardev', socket('monitor', firstSocket), '-mon', 'chardev=monitor,mode=control'],
    // virtiofsd supports only virtio 1.0 devices.
    ...['-global', 'virtio-mmio.force-legacy=off', '-device', 'virtio-serial-device'],
    ...['-chardev', socket('control', firstSocket + 1), '-device', 'virtserialport,chardev=control,name=sandglass.control'],
    ...['-chardev', socket('carrier', firstSocket + 2), '-device', 'virtserialport,chardev=carrier,name=sandglass.mux'],
    ...(input.egress
      ? ['-chardev', socket('egress', firstSocket + SOCKETS), '-device', 'virtserialport,chardev=egress,name=sandglass.egress']
      : []),
    ...readonlyDisk('image', FILES.image),
    ...readonlyDisk('top', FILES.top),
    ...sessionDisk(input),
    ...input.packages.flatMap((name, i) => readonlyDisk(`package-${name}`, FIRST_PACKAGE + i)),
    ...(input.bridged ? network(afterSockets, input.id) : []),
    ...shares(input, afterSockets + (input.bridged ? 1 : 0)),
    ...(input.restore ? ['-incoming', `fd:${snapshot}`] : []),
    ...input.extraArgs,
  ]
}

/** A machine without disks that logs that it has booted, and exits. */
export function trialArgs(qemu: string, arch: NodeJS.Architecture, id: string): string[] {
  return [
    ...[
      qemu,
      ...COMMON,
      '-name',
      id,
      '-M',
      machine({ arch, shares: 0, shareProto: 'virtiofs' }),
      '-accel',
      'kvm',
      '-cpu',
      'host',
      '-m',
      '256',
    ],
    ...['-kernel', `/dev/fd/${FILES.kernel}`, '-initrd', `/dev/fd/${FILES.initramfs}`],
    ...['-append', `console=${consoleOf(arch)} quiet panic=-1 -- --trial`, ...CONSOLE],
  ]
}

function machine({ arch, shares, shareProto }: Pick<QemuInput, 'arch' | 'shares' | 'shareProto'>): string {
  // Without ACPI a stock kernel does not find the virtio devices.
  const kind = arch === 'arm64' ? 'virt' : 'microvm,acpi=on'
  return shares > 0 && shareProto === 'virtiofs' ? `${kind},memory-backend=memory` : kind
}

function accel(which: Accel): string {
  // Without tb-size the translation cache grows to a gigabyte.
  return which === 'kvm' ? 'kvm' : 'tcg,thread=multi,tb-size=128'
}

function cpu({ accel, arch, nestedVirt }: QemuInput): string {
  // Under emulation, string instructions (erms, fsrm) and five-level page tables (la57) are slow.
  if (accel === 'tcg') return arch === 'arm64' ? 'max' : 'max,-erms,-fsrm,-la57'
  return arch === 'arm64' || nestedVirt ? 'host' : 'host,-vmx,-svm'
}

function kernelArgs(input: QemuInput): string {
  const { arch, accel, tscKhz, layers, memoryMb, modules, packages, readAhead } = input
  // On a busy host the kernel cannot calibrate the clock of an emulated processor, and would wait for ever.
  const clock = accel === 'tcg' && tscKhz > 0 ? [`tsc_early_khz=${tscKhz}`, 'tsc=reliable', 'no_timer_check'] : []
  // An emulated processor does not speculate, so mitigations have no use, and they are expensive: each system call would flush the emulated TLB.
  const plain = accel === 'tcg' ? ['mitigations=off'] : []
  const initArgs = ['--layers', layers, '--tmp-mb', Math.floor(memoryMb / 2), ...(readAhead ? ['--read-ahead'] : [])]
  const shown = packages.length > 0 ? ['--packages', packages.join(',')] : []
  const load = modules.length > 0 ? ['--load', modules.join(',')] : []
  // panic=-1: a kernel panic ends the machine. cryptomgr.notests: the self tests of ciphers take a third of the boot. The arguments after -- are
  // for the guest's first process.
  return [
    `console=${consoleOf(arch)}`,
    'quiet panic=-1 cryptomgr.notests',
    ...clock,
    ...plain,
    '--',
    ...initArgs,
    ...shown,
    ...load,
  ].join(' ')
}

function socket(id: string, fd: number): string {
  return `socket,id=${id},fd=${fd},server=on,wait=off`
}

/** The name is also its serial number, of which the guest sees 20 characters. */
function readonlyDisk(name: string, fd: number): string[] {
  const file = {
    driver: 'file',
    filename: `/dev/fdset/${fd}`,
    'node-name': name,
    'read-only': true,
    locking: 'off',
    ...KEEP_CACHE,
  }
  return ['-add-fd', `fd=${fd},set=${fd}`, ...blockdev(file), '-device', `virtio-blk-device,drive=${name},serial=${name}`]
}

/** A machine that resumes from a snapshot need not drop the host's page cache of the disk: no other host has written to it. */
const KEEP_CACHE = { 'drop-cache': false }
const blockdev = (options: object) => ['-blockdev', JSON.stringify(options)]

function sessionDisk({ diskFormat, durable }: QemuInput): string[] {
  const cache = { direct: false, 'no-flush': !durable }
  // SECURITY: a backing file in the qcow2 header is ignored, because a session could write one there.
  const format = diskFormat === 'qcow2' ? { driver: diskFormat, backing: null } : { driver: diskFormat }
  return [
    ...['-add-fd', `fd=${FILES.disk},set=${FILES.disk}`],
    ...blockdev({ driver: 'file', filename: `/dev/fdset/${FILES.disk}`, 'node-name': 'file', cache, ...KEEP_CACHE }),
    ...blockdev({ ...format, file: 'file', 'node-name': 'session', cache }),
    ...['-device', 'virtio-blk-device,drive=session,serial=session'],
  ]
}

function network(fd: number, id: string): string[] {
  return ['-netdev', `tap,id=bridge,fd=${fd}`, '-device', `virtio-net-device,netdev=bridge,mac=${macAddress(id)}`]
}

/** virtiofsd accesses the guest's memory directly, so the memory is shared with it. */
function shares({ shares, shareProto, memoryMb }: QemuInput, firstFd: number): string[] {
  if (shares === 0) return []
  if (shareProto === '9p') return Array.from({ length: shares }, (_, i) => ninePShare(i)).flat()
  const devices = Array.from({ length: shares }, (_, i) => [
    ...['-chardev', `socket,id=${tagOf(i)},fd=${firstFd + i}`],
    ...['-device', `vhost-user-fs-device,chardev=${tagOf(i)},tag=${tagOf(i)}`],
  ])
  return ['-object', `memory-backend-memfd,id=memory,size=${guestMemoryMb(memoryMb)}M,share=on`, ...devices.flat()]
}

/** The jail mounts the folder at /shares/N. */
function ninePShare(i: number): string[] {
  const folder = `local,id=${tagOf(i)},path=/shares/${i},security_model=none,readonly=on`
  return ['-fsdev', folder, '-device', `virtio-9p-device,fsdev=${tagOf(i)},mount_tag=${tagOf(i)}`]
}

/** A locally administered MAC address, the same at every start of a session. */
function macAddress(id: string): string {
  const bytes = Buffer.from(id.slice(-5).padStart(5, '0'))
  return ['02', ...[...bytes].map(byte => byte.toString(16).padStart(2, '0'))].join(':')
}
