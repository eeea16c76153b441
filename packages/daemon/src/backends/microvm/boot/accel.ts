// Whether the processor's own virtualisation works here. A device file tells nothing: on a host that is itself virtual it may open and run
// nothing, so a machine is booted with it once.
import { accessSync, constants, readFileSync } from 'node:fs'
import { readFile, rename, rm, stat, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { isMissing, nullIfMissing } from '../../../lib/missing-file.ts'
import { unsupported } from '../../machine/unsupported.ts'
import type { MicrovmPaths } from '../paths.ts'
import { type JailIds, jailOf, QEMU_RLIMITS } from '../qemu/jail.ts'
import { startKept, type VmJob } from '../qemu/launcher.ts'
import { end, gone } from '../qemu/processes.ts'
import { trialArgs } from '../qemu/qemu-args.ts'
import type { BootFiles } from './boot-files.ts'

const KVM = '/dev/kvm'
const TRIAL_ID = 'kvm-trial'
/** A working one boots in less than a second. */
const TRIAL_MS = 6000
/** How long a failure counts: the host may just have been busy. */
const FAILURE_FRESH_MS = 3_600_000
/** What a machine says that was booted to see whether it boots. */
const BOOTED = 'sandglass: this machine boots'
const WORKS = 'it works'
const TRIAL_STUCK = `${KVM} opens, but a machine that was started with it had not booted after ${TRIAL_MS / 1000} seconds`
const TRIAL_FIX =
  'use a host that is no virtual machine, or one with nested virtualisation; a busy host is tried again after an hour'

export interface TrialInput {
  readonly paths: MicrovmPaths
  readonly runnerPath: string
  readonly qemu: string
  readonly boot: BootFiles
  readonly jailIds: JailIds | null
}

export interface KvmProblem {
  readonly what: string
  readonly fix: string
}

/** Why it cannot be used, or null. It is tried once for each boot of the host and each kernel; undefined while it was not and may not be. */
export async function kvmProblem(input: TrialInput, mayTakeSeconds: boolean): Promise<KvmProblem | null | undefined> {
  try {
    accessSync(KVM, constants.R_OK | constants.W_OK)
  } catch (error) {
    return closedDevice((error as NodeJS.ErrnoException).code ?? String(error))
  }
  const file = join(
    input.paths.boot,
    `kvm-${readFileSync('/proc/sys/kernel/random/boot_id', 'utf8').trim()}-${input.boot.digest}`,
  )
  const known = await readFile(file, 'utf8').catch(nullIfMissing)
  if (known === WORKS) return null
  if (known !== null && Date.now() - (await stat(file)).mtimeMs < FAILURE_FRESH_MS) return { what: known, fix: TRIAL_FIX }
  if (!mayTakeSeconds) return undefined
  const problem = await tryIt(input)
  await writeFile(`${file}.${process.pid}`, problem ?? WORKS)
  await rename(`${file}.${process.pid}`, file)
  return problem === null ? null : { what: problem, fix: TRIAL_FIX }
}

/** What is wrong with a device that this process cannot open. */
export function closedDevice(code: string): KvmProblem {
  if (code === 'ENOENT')
    return {
      what: `there is no ${KVM}`,
      fix: 'switch on virtualisation in the firmware, or nested virtualisation where this host is itself virtual, and load kvm_intel or kvm_amd',
    }
  if (code === 'EACCES' || code === 'EPERM')
    return {
      what: `this user may not open ${KVM} (${code})`,
      fix: 'sudo usermod -aG kvm $USER, log in again, and start the daemon again',
    }
  return { what: `${KVM} cannot be opened (${code})`, fix: 'see whether `ls -l /dev/kvm` shows a device that this user may open' }
}

/** Whether a machine can have machines of its own, and which drivers it needs for that; null where it cannot. */
export function nestedDrivers(): 'kvm-intel' | 'kvm-amd' | null {
  for (const name of ['kvm_intel', 'kvm_amd'] as const) {
    try {
      if (/^[Y1]/.test(readFileSync(`/sys/module/${name}/parameters/nested`, 'utf8')))
        return name === 'kvm_intel' ? 'kvm-intel' : 'kvm-amd'
    } catch (error) {
      if (!isMissing(error)) throw error
    }
  }
  return null
}

/** Throws where there is none: whoever asks for it is not to find out inside. */
export function refuseNested({ accel, nested }: { readonly accel: string; readonly nested: string | null }): void {
  if (nested !== null) return
  throw unsupported(
    `nested virtualisation with microvm: ${accel === 'kvm' ? 'neither kvm_intel nor kvm_amd of this host has nested=1, or the kernel of the machine has no driver for it' : 'there is no KVM here that works'}`,
    'leave it out; `sandglass doctor` says what this host lacks for it',
  )
}

async function tryIt({ paths, runnerPath, qemu, boot, jailIds }: TrialInput): Promise<string | null> {
  const log = join(paths.run, `${TRIAL_ID}.log`)
  const job: VmJob = {
    argv: trialArgs(qemu, process.arch, TRIAL_ID),
    files: [
      { path: boot.kernel, write: false },
      { path: boot.initramfs, write: false },
    ],
    sockets: [],
    bridge: '',
    share_socket: '',
    log,
    log_bytes: 65_536,
    jail: jailIds === null ? undefined : jailOf(paths, qemu, jailIds.first, true),
    groups: [],
    rlimits: QEMU_RLIMITS,
  }
  try {
    const kept = await startKept(runnerPath, TRIAL_ID, job)
    const isDone = await gone(kept.qemu, TRIAL_MS)
    if (!isDone) await end(kept.qemu, TRIAL_MS)
    await gone(kept.keeper, TRIAL_MS)
    const said = (await readFile(log, 'latin1')).trim()
    if (said.includes(BOOTED)) return null
    return isDone ? `QEMU says: ${said.split('\n')[0]?.slice(0, 200) ?? ''}` : TRIAL_STUCK
  } catch (error) {
    if (error instanceof Error) return error.message
    throw error
  } finally {
    await rm(log, { force: true })
  }
}
