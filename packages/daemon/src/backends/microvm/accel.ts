// Whether the processor's own virtualisation works here. A device file tells nothing: on a host that is itself virtual it may open and run
// nothing, so a machine is booted with it once.
import { accessSync, constants, readFileSync } from 'node:fs'
import { readFile, rename, rm, stat, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { isMissing } from '../missing-file.ts'
import { unsupported } from '../unsupported.ts'
import type { BootFiles } from './boot-files.ts'
import { type JailIds, jailOf, QEMU_RLIMITS } from './jail.ts'
import { startKept, type VmJob } from './keeper.ts'
import type { MicrovmPaths } from './paths.ts'
import { end, gone } from './processes.ts'
import { trialArgs } from './qemu-args.ts'

const KVM = '/dev/kvm'
const TRIAL_ID = 'kvm-trial'
/** A working one boots in less than a second. */
const TRIAL_MS = 6000
/** How long a failure counts: the host may just have been busy. */
const FAILURE_FRESH_MS = 3_600_000
/** What a machine says that was booted to see whether it boots. */
const BOOTED = 'sandglass: this machine boots'
const WORKS = 'it works'

export interface TrialInput {
  readonly paths: MicrovmPaths
  readonly runnerPath: string
  readonly qemu: string
  readonly boot: BootFiles
  readonly jailIds: JailIds | null
}

/** Why it cannot be used, or null. It is tried once for each boot of the host and each kernel; undefined while it was not and may not be. */
export async function kvmProblem(input: TrialInput, mayTakeSeconds: boolean): Promise<string | null | undefined> {
  try {
    accessSync(KVM, constants.R_OK | constants.W_OK)
  } catch (error) {
    return `${KVM}: ${error instanceof Error && 'code' in error ? String(error.code) : String(error)}`
  }
  const file = join(
    input.paths.boot,
    `kvm-${readFileSync('/proc/sys/kernel/random/boot_id', 'utf8').trim()}-${input.boot.digest}`,
  )
  const known = await readFile(file, 'utf8').catch(missing)
  if (known === WORKS) return null
  if (known !== null && Date.now() - (await stat(file)).mtimeMs < FAILURE_FRESH_MS) return known
  if (!mayTakeSeconds) return undefined
  const problem = await tryIt(input)
  await writeFile(`${file}.${process.pid}`, problem ?? WORKS)
  await rename(`${file}.${process.pid}`, file)
  return problem
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
    return isDone ? `QEMU says: ${said.split('\n')[0]?.slice(0, 200) ?? ''}` : `a machine runs nothing with ${KVM}`
  } catch (error) {
    if (error instanceof Error) return error.message
    throw error
  } finally {
    await rm(log, { force: true })
  }
}

function missing(error: unknown): null {
  if (isMissing(error)) return null
  throw error
}
