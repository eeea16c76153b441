// Probes what this host has for virtual machines and what it lacks.
import { execFile } from 'node:child_process'
import { readFileSync } from 'node:fs'
import { readFile, rename, writeFile } from 'node:fs/promises'
import { isAbsolute, join } from 'node:path'
import { promisify } from 'node:util'
import type { DiskPolicy } from '../../data-dir/disk-policy.ts'
import { findProgram } from '../../lib/find-program.ts'
import { nullIfMissing } from '../../lib/missing-file.ts'
import type { Probe } from '../backend.ts'
import { launcherBeside } from '../launcher/program.ts'
import { type KvmProblem, kvmProblem, nestedDrivers } from './boot/accel.ts'
import { type BootFiles, prepareBoot } from './boot/boot-files.ts'
import { findKernel } from './boot/find-kernel.ts'
import { UnusableKernel } from './boot/kernel-modules.ts'
import type { DiskFormat, DiskTools } from './disks/session-disk.ts'
import type { MicrovmPaths } from './paths.ts'
import type { MachineGroups } from './qemu/cgroups.ts'
import type { Accel } from './qemu/command-line.ts'
import { type JailIds, jailIds, jailProblem } from './qemu/jail.ts'
import { findVirtiofsd, type ShareProto } from './qemu/shares.ts'

const run = promisify(execFile)

export interface MicrovmOptions {
  readonly dataDir: string
  readonly runnerPath: string
  /** A path or `auto`. */
  readonly qemu: string
  readonly kernel: string
  readonly accel: 'auto' | Accel
  readonly shareProto: ShareProto
  readonly diskFormat: DiskFormat
  readonly bridge: string | null
  readonly extraArgs: readonly string[]
  readonly disk: DiskPolicy
}

/** The programs and features of this host that machines use. */
export interface Host {
  readonly qemu: string
  readonly qemuVersion: string
  readonly accel: Accel
  /** The module set for nested virtualisation; null if it is not supported. */
  readonly nested: 'kvm-intel' | 'kvm-amd' | null
  readonly tscKhz: number
  readonly boot: BootFiles
  readonly kernelVersion: string
  readonly disks: DiskTools
  readonly mksquashfs: string
  readonly sqfstar: string | null
  /** User ids for QEMU in a jail; null if jails do not work here. */
  readonly jailIds: JailIds | null
  /** Null if this daemon cannot create cgroups. */
  readonly groups: MachineGroups | null
  readonly virtiofsd: string | null
  /** Whether shared folders can be id-mapped, which needs root. */
  readonly canShiftOwners: boolean
}

export interface HostProbe {
  readonly host: Host | null
  /** False if the KVM trial was skipped because it takes seconds. */
  readonly isComplete: boolean
  readonly probe: Probe
}

const QEMU = process.arch === 'arm64' ? 'qemu-system-aarch64' : 'qemu-system-x86_64'
const QEMU_PACKAGE = process.arch === 'arm64' ? 'qemu-system-arm' : 'qemu-system-x86'
const KERNEL_PACKAGE = process.arch === 'arm64' ? 'linux-image-cloud-arm64' : 'linux-image-cloud-amd64'

const KVM_DISABLED: KvmProblem = { what: 'backends.microvm.accel is tcg', fix: 'set backends.microvm.accel to auto' }
const KVM_UNTRIED: KvmProblem = { what: 'KVM is tried with the first session', fix: '`sandglass doctor` tries it' }

export async function probeHost(
  options: MicrovmOptions,
  paths: MicrovmPaths,
  groups: MachineGroups | null,
  mayTakeSeconds: boolean,
): Promise<HostProbe> {
  const qemu = isAbsolute(options.qemu) ? options.qemu : findProgram(options.qemu === 'auto' ? QEMU : options.qemu)
  const qemuVersion = qemu === null ? null : await versionOf(qemu)
  if (qemu === null || qemuVersion === null)
    return unavailable(
      options.qemu === 'auto' ? `${QEMU} is not installed` : `${options.qemu} does not run`,
      `sudo apt-get install -y ${QEMU_PACKAGE}`,
    )
  const mksquashfs = findProgram('mksquashfs')
  if (mksquashfs === null) return unavailable('mksquashfs is not installed', 'sudo apt-get install -y squashfs-tools')
  const mke2fs = findProgram('mke2fs')
  if (mke2fs === null) return unavailable('mke2fs is not installed', 'sudo apt-get install -y e2fsprogs')
  const qemuImg = findProgram('qemu-img')
  if (qemuImg === null && options.diskFormat === 'qcow2')
    return unavailable(
      'qemu-img is not installed',
      'sudo apt-get install -y qemu-utils, or set backends.microvm.disk_format to raw',
    )
  const kernel = await findKernel(options.kernel, [join(paths.dataDir, 'kernel'), join(options.runnerPath, '../kernel')])
  if (kernel === null)
    return unavailable(
      options.kernel === 'auto'
        ? '/boot has no kernel with installed modules'
        : `${options.kernel} is not a kernel with installed modules`,
      `sudo apt-get install -y ${KERNEL_PACKAGE}`,
    )
  const boot = await prepareBoot(kernel, options.runnerPath, paths.boot).catch(unlessUnusable)
  if (boot instanceof UnusableKernel) return unavailable(boot.message, boot.fix)
  const ids = options.extraArgs.length > 0 ? null : jailIds()
  const problem = ids === null ? noIds(options) : await jailProblem(paths, options.runnerPath, qemu, ids.first)
  const jail = problem === null ? ids : null
  const trial = { paths, runnerPath: options.runnerPath, qemu, boot, jailIds: jail }
  const tried = options.accel === 'tcg' ? KVM_DISABLED : await kvmProblem(trial, mayTakeSeconds)
  const noKvm = tried === undefined ? KVM_UNTRIED : tried
  if (options.accel === 'kvm' && noKvm !== null && tried !== undefined)
    return unavailable(`KVM does not work here: ${noKvm.what}`, `${noKvm.fix}; or set backends.microvm.accel to auto or tcg`)
  const nested = noKvm === null ? nestedDrivers() : null
  const host: Host = {
    qemu,
    qemuVersion,
    accel: noKvm === null ? 'kvm' : 'tcg',
    nested: nested !== null && boot.sets.includes(nested) ? nested : null,
    tscKhz: await tscKhz(options.runnerPath, paths.boot),
    boot,
    kernelVersion: kernel.version,
    disks: { mke2fs, qemuImg },
    mksquashfs,
    sqfstar: findProgram('sqfstar'),
    jailIds: jail,
    groups,
    virtiofsd: findVirtiofsd(),
    canShiftOwners: ids?.isRoots ?? false,
  }
  return { host, isComplete: tried !== undefined, probe: available(host, { noJail: problem, noKvm }) }
}

function noIds({ extraArgs }: MicrovmOptions): string {
  return extraArgs.length > 0 ? 'qemu_extra_args may name files' : 'this user has no sub-ids for it'
}

function available(host: Host, { noJail, noKvm }: { noJail: string | null; noKvm: KvmProblem | null }): Probe {
  const weaker = [
    noJail !== null && {
      what: `QEMU runs as the daemon's user, without a jail: ${noJail}`,
      fix: 'run the daemon as root, outside a container',
    },
    host.groups === null && {
      what: 'only the guest kernel enforces limits: there is no cgroup for QEMU',
      fix: 'run the daemon as root, or with a delegated cgroup',
    },
    noKvm !== null && {
      what: `the processor is emulated, which is several times slower: ${noKvm.what}`,
      fix: noKvm.fix,
    },
    host.accel === 'tcg' &&
      host.boot.plainProblem !== null && {
        what: `machines decompress their kernel at each boot, which is slower: decompressing it here failed (${host.boot.plainProblem})`,
        fix: 'if no machine starts, the kernel is damaged: install it again; else check that xz is installed and the disk has free space',
      },
    host.nested === null && {
      what: 'sessions have no nested virtualisation',
      fix: 'use KVM on a host whose kvm_intel or kvm_amd has nested=1',
    },
  ]
  return {
    available: true,
    why: null,
    fix: null,
    detail: `QEMU ${host.qemuVersion} with ${host.accel === 'kvm' ? 'KVM' : 'TCG'}, Linux ${host.kernelVersion}`,
    unenforceable: [],
    weaker: weaker.filter(line => line !== false),
    kernel: 'own',
  }
}

function unavailable(why: string, fix: string): HostProbe {
  return {
    host: null,
    isComplete: true,
    probe: { available: false, why, fix, detail: '', unenforceable: [], weaker: [], kernel: 'own' },
  }
}

async function versionOf(qemu: string): Promise<string | null> {
  try {
    const { stdout } = await run(qemu, ['--version'], { env: {} })
    return /version (\S+)/.exec(stdout)?.[1] ?? null
  } catch (error) {
    if (error instanceof Error) return null
    throw error
  }
}

/** Measured once per boot of the host, because a snapshot works only with the frequency that it was made with. */
async function tscKhz(runnerPath: string, dir: string): Promise<number> {
  if (process.arch === 'arm64') return 0
  const file = join(dir, `tsc-${readFileSync('/proc/sys/kernel/random/boot_id', 'utf8').trim()}`)
  const known = await readFile(file, 'utf8').catch(nullIfMissing)
  if (known !== null) return Number(known)
  const { stdout } = await run(launcherBeside(runnerPath), ['tsc'], { env: {} })
  await writeFile(`${file}.${process.pid}`, stdout.trim())
  await rename(`${file}.${process.pid}`, file)
  return Number(stdout)
}

function unlessUnusable(error: unknown): UnusableKernel {
  if (error instanceof UnusableKernel) return error
  throw error
}
