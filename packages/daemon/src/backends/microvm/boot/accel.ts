// Finds out whether KVM works here. A readable device file is no proof: on a virtual host it may open but run nothing, so a trial machine is booted
// once.
import { accessSync, constants, readFileSync } from 'node:fs'
import { readFile, rename, rm, stat, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { isMissing, nullIfMissing } from '../../../lib/missing-file.ts'
import { launcherBeside } from '../../launcher/program.ts'
import type { VmJob } from '../../launcher/schema.ts'
import type { MicrovmPaths } from '../paths.ts'
import { trialArgs } from '../qemu/command-line.ts'
import { type JailIds, jailOf, QEMU_RLIMITS } from '../qemu/jail.ts'
import { startSupervised } from '../qemu/launcher.ts'
import { killAndWait, waitForExit } from '../qemu/processes.ts'
import type { BootFiles } from './boot-files.ts'
import { BOOTED_LINE } from './guest-console.ts'

const KVM = '/dev/kvm'
const TRIAL_ID = 'kvm-trial'
/** With working KVM the trial machine boots in less than a second. */
const TRIAL_MS = 6000
/** A failure is tried again after this time, because the host may just have been busy. */
const FAILURE_FRESH_MS = 3_600_000
/** Content of the result file after a successful trial. */
const WORKS = 'it works'
const TRIAL_STUCK = `${KVM} opens, but a trial machine did not boot within ${TRIAL_MS / 1000} seconds`
const TRIAL_FIX = 'use a physical host, or a virtual one with nested virtualisation; a busy host is tried again after an hour'

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

/**
 * The reason why KVM cannot be used, or null if it works. The trial runs once per boot of the host and per kernel. Undefined if it has not run yet
 * and `mayTakeSeconds` forbids it.
 */
export async function kvmProblem(
  input: TrialInput,
  mayTakeSeconds: boolean,
  device = KVM,
): Promise<KvmProblem | null | undefined> {
  try {
    accessSync(device, constants.R_OK | constants.W_OK)
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
  const problem = await bootTrial(input)
  await writeFile(`${file}.${process.pid}`, problem ?? WORKS)
  await rename(`${file}.${process.pid}`, file)
  return problem === null ? null : { what: problem, fix: TRIAL_FIX }
}

/** Explains the error of opening the device. */
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
  return { what: `${KVM} cannot be opened (${code})`, fix: 'check with `ls -l /dev/kvm` whether this user may open the device' }
}

/** The driver that nested virtualisation needs in the guest; null if the host does not support it. */
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

async function bootTrial({ paths, runnerPath, qemu, boot, jailIds }: TrialInput): Promise<string | null> {
  const log = join(paths.run, `${TRIAL_ID}.log`)
  const job: VmJob = {
    argv: trialArgs(qemu, process.arch, TRIAL_ID),
    files: [
      { path: boot.kernel, write: false },
      { path: boot.initramfs, write: false },
    ],
    sockets: [],
    egress_socket: null,
    bridge: '',
    share_socket: '',
    log,
    log_bytes: 65_536,
    jail: jailIds === null ? undefined : jailOf(paths, qemu, jailIds.first, true),
    groups: [],
    rlimits: QEMU_RLIMITS,
  }
  try {
    const started = await startSupervised(launcherBeside(runnerPath), TRIAL_ID, job)
    const hasExited = await waitForExit(started.qemu, TRIAL_MS)
    if (!hasExited) await killAndWait(started.qemu, TRIAL_MS)
    await waitForExit(started.supervisor, TRIAL_MS)
    const output = (await readFile(log, 'latin1')).trim()
    if (output.includes(BOOTED_LINE)) return null
    return hasExited ? `QEMU says: ${output.split('\n')[0]?.slice(0, 200) ?? ''}` : TRIAL_STUCK
  } catch (error) {
    if (error instanceof Error) return error.message
    throw error
  } finally {
    await rm(log, { force: true })
  }
}
