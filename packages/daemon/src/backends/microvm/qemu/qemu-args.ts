// QEMU's command line. Everything it may use comes as an open descriptor, so that it needs no right to any path.
import type { DiskFormat } from '../disks/session-disk.ts'
import { type ShareProto, tagOf } from './shares.ts'

export type Accel = 'kvm' | 'tcg'

export interface QemuInput {
  readonly qemu: string
  readonly arch: NodeJS.Architecture
  readonly id: string
  readonly accel: Accel
  /** Of the host's time stamp counter, for emulated x64 machines; 0 where it is of no use. */
  readonly tscKhz: number
  readonly memoryMb: number
  readonly vcpus: number
  readonly diskFormat: DiskFormat
  /** Whether what the machine flushes is to survive the end of the host, too. */
  readonly durable: boolean
  readonly nestedVirt: boolean
  /** Folders of the image's disk; 0 where the disk itself is the one layer. */
  readonly layers: number
  /** Sets of drivers beside the usual ones. */
  readonly modules: readonly string[]
  readonly extraArgs: readonly string[]
  readonly restore: boolean
  /** The machine reads what a first shell is made of, so that a snapshot of it has that in memory. */
  readonly readAhead: boolean
  readonly bridged: boolean
  /** How many folders of the host it sees. */
  readonly shares: number
  readonly shareProto: ShareProto
}

/** In the order in which the keeper gives them, from 3 on. */
const FILES = { kernel: 3, initramfs: 4, image: 5, top: 6, disk: 7 } as const
const SNAPSHOT = 8
const SOCKETS = 3

const COMMON = [
  ...['-nodefaults', '-no-user-config', '-nographic', '-no-reboot'],
  // SECURITY: QEMU itself gives up making processes, raising its rights, and calls that only old programs make.
  ...['-sandbox', 'on,obsolete=deny,elevateprivileges=deny,spawn=deny,resourcecontrol=deny'],
]
const CONSOLE = ['-chardev', 'stdio,id=console,signal=off', '-serial', 'chardev:console']
const consoleOf = (arch: NodeJS.Architecture) => (arch === 'arm64' ? 'ttyAMA0' : 'ttyS0')

/**
 * What a machine's kernel needs is beside what the session may use, and enough: a machine that is short of memory as a whole would reclaim its
 * programs again and again before it came to the session's limit.
 */
export function guestMemoryMb(memoryMb: number): number {
  return memoryMb + 128 + Math.ceil(memoryMb / 32)
}

export function qemuArgs(input: QemuInput): string[] {
  const firstSocket = input.restore ? SNAPSHOT + 1 : SNAPSHOT
  return [
    ...[input.qemu, ...COMMON, '-name', input.id],
    ...['-M', machine(input), '-accel', accel(input.accel), '-cpu', cpu(input)],
    ...['-m', String(guestMemoryMb(input.memoryMb)), '-smp', String(input.vcpus)],
    ...['-kernel', `/dev/fd/${FILES.kernel}`, '-initrd', `/dev/fd/${FILES.initramfs}`, '-append', kernelArgs(input)],
    ...CONSOLE,
    ...['-chardev', socket('monitor', firstSocket), '-mon', 'chardev=monitor,mode=control'],
    // Devices as of virtio 1.0: virtiofsd knows no others.
    ...['-global', 'virtio-mmio.force-legacy=off', '-device', 'virtio-serial-device'],
    ...['-chardev', socket('control', firstSocket + 1), '-device', 'virtserialport,chardev=control,name=sandglass.control'],
    ...['-chardev', socket('carrier', firstSocket + 2), '-device', 'virtserialport,chardev=carrier,name=sandglass.mux'],
    ...readonlyDisk('image'),
    ...readonlyDisk('top'),
    ...sessionDisk(input),
    ...(input.bridged ? network(firstSocket + SOCKETS, input.id) : []),
    ...shares(input, firstSocket + SOCKETS + (input.bridged ? 1 : 0)),
    ...(input.restore ? ['-incoming', `fd:${SNAPSHOT}`] : []),
    ...input.extraArgs,
  ]
}

/** A machine with nothing in it that says that it boots, and ends. */
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
  // Without ACPI a stock kernel does not find the devices.
  const kind = arch === 'arm64' ? 'virt' : 'microvm,acpi=on'
  return shares > 0 && shareProto === 'virtiofs' ? `${kind},memory-backend=memory` : kind
}

function accel(which: Accel): string {
  // The cache of translated code would otherwise grow to a gigabyte.
  return which === 'kvm' ? 'kvm' : 'tcg,thread=multi,tb-size=128'
}

function cpu({ accel, arch, nestedVirt }: QemuInput): string {
  // Emulated, copying byte by byte in one instruction is slow, and so is a fifth level of page tables.
  if (accel === 'tcg') return arch === 'arm64' ? 'max' : 'max,-erms,-fsrm,-la57'
  return arch === 'arm64' || nestedVirt ? 'host' : 'host,-vmx,-svm'
}

function kernelArgs(input: QemuInput): string {
  const { arch, accel, tscKhz, layers, memoryMb, modules, readAhead } = input
  // On a busy host an emulated processor's clock cannot be measured, and the kernel would wait for ever.
  const clock = accel === 'tcg' && tscKhz > 0 ? [`tsc_early_khz=${tscKhz}`, 'tsc=reliable', 'no_timer_check'] : []
  // An emulated processor does not speculate, so what is meant against that only costs, and much: each call of the kernel would empty the
  // emulation's memory of translated addresses.
  const plain = accel === 'tcg' ? ['mitigations=off'] : []
  const facts = ['--layers', layers, '--tmp-mb', Math.floor(memoryMb / 2), ...(readAhead ? ['--read-ahead'] : [])]
  const load = modules.length > 0 ? ['--load', modules.join(',')] : []
  // A kernel that panics ends the machine. The tests of its ciphers take as long as a third of the boot. What comes after the dashes are
  // arguments of the machine's first process.
  return [`console=${consoleOf(arch)}`, 'quiet panic=-1 cryptomgr.notests', ...clock, ...plain, '--', ...facts, ...load].join(' ')
}

function socket(id: string, fd: number): string {
  return `socket,id=${id},fd=${fd},server=on,wait=off`
}

function readonlyDisk(name: 'image' | 'top'): string[] {
  const fd = FILES[name]
  const file = { driver: 'file', filename: `/dev/fdset/${fd}`, 'node-name': name, 'read-only': true, locking: 'off', ...KEPT }
  return ['-add-fd', `fd=${fd},set=${fd}`, ...blockdev(file), '-device', `virtio-blk-device,drive=${name},serial=${name}`]
}

/** No other host wrote to it: a machine that goes on from a snapshot need not drop what this host's memory has of the disk, an image for one. */
const KEPT = { 'drop-cache': false }
const blockdev = (options: object) => ['-blockdev', JSON.stringify(options)]

function sessionDisk({ diskFormat, durable }: QemuInput): string[] {
  const cache = { direct: false, 'no-flush': !durable }
  // SECURITY: what a session wrote into its disk's header names no other file.
  const format = diskFormat === 'qcow2' ? { driver: diskFormat, backing: null } : { driver: diskFormat }
  return [
    ...['-add-fd', `fd=${FILES.disk},set=${FILES.disk}`],
    ...blockdev({ driver: 'file', filename: `/dev/fdset/${FILES.disk}`, 'node-name': 'file', cache, ...KEPT }),
    ...blockdev({ ...format, file: 'file', 'node-name': 'session', cache }),
    ...['-device', 'virtio-blk-device,drive=session,serial=session'],
  ]
}

function network(fd: number, id: string): string[] {
  return ['-netdev', `tap,id=bridge,fd=${fd}`, '-device', `virtio-net-device,netdev=bridge,mac=${address(id)}`]
}

/** virtiofsd reads and writes the machine's memory itself, so that has to be shared with it. */
function shares({ shares, shareProto, memoryMb }: QemuInput, firstFd: number): string[] {
  if (shares === 0) return []
  if (shareProto === '9p') return Array.from({ length: shares }, (_, i) => ninePShare(i)).flat()
  const devices = Array.from({ length: shares }, (_, i) => [
    ...['-chardev', `socket,id=${tagOf(i)},fd=${firstFd + i}`],
    ...['-device', `vhost-user-fs-device,chardev=${tagOf(i)},tag=${tagOf(i)}`],
  ])
  return ['-object', `memory-backend-memfd,id=memory,size=${guestMemoryMb(memoryMb)}M,share=on`, ...devices.flat()]
}

/** The jail has the folder there. */
function ninePShare(i: number): string[] {
  const folder = `local,id=${tagOf(i)},path=/shares/${i},security_model=none,readonly=on`
  return ['-fsdev', folder, '-device', `virtio-9p-device,fsdev=${tagOf(i)},mount_tag=${tagOf(i)}`]
}

/** An address of the kind that nobody assigns, the same for a session at every start. */
function address(id: string): string {
  const bytes = Buffer.from(id.slice(-5).padStart(5, '0'))
  return ['02', ...[...bytes].map(byte => byte.toString(16).padStart(2, '0'))].join(':')
}
