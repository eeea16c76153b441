// The one message that makes a waiting machine a session's: sent over the control port, never written anywhere.
import { randomBytes } from 'node:crypto'
import type { MachineSpec } from '../../backend.ts'
import { RUNNER_THREADS, runnerConfig } from '../../machine/runner-config.ts'

export interface GuestShare {
  readonly type: 'virtiofs' | '9p'
  readonly tag: string
  readonly target: string
  readonly readonly: boolean
}

const ENTROPY_BYTES = 256
const CPU_PERIOD_USEC = 100_000
const MIB = 1024 * 1024
const OPEN_FILES = 65_536
const QUEUED_SIGNALS = 1024
/** The kernel's numbers, the same on x64 and arm64. */
const RLIMIT = { core: 4, processes: 6, openFiles: 7, queuedSignals: 11, messageQueues: 12 }

// SECURITY: token, environment and entropy travel here alone: not in argv, not in a file, and not in a snapshot, which ends before it comes.
/** `limitsCpu`: the machine's own kernel is the one to hold the session to a part of a processor. */
export function guestConfig(
  spec: MachineSpec,
  token: string,
  user: string,
  shares: readonly GuestShare[],
  limitsCpu: boolean,
): object {
  const vcpus = Math.ceil(spec.cpuCores)
  return {
    type: 'config',
    hostname: spec.name,
    entropy: randomBytes(ENTROPY_BYTES).toString('base64'),
    clock_ms: Date.now(),
    readonly_root: spec.readonlyRootfs,
    names: { hosts: `127.0.0.1 localhost\n127.0.0.1 ${spec.name}\n`, hostname: `${spec.name}\n` },
    limits: {
      memory_bytes: spec.memoryMb * MIB,
      pids: spec.pidsLimit + RUNNER_THREADS,
      cpu_quota_usec: limitsCpu && spec.cpuCores < vcpus ? Math.round(spec.cpuCores * CPU_PERIOD_USEC) : 0,
    },
    rlimits: [
      { resource: RLIMIT.openFiles, limit: OPEN_FILES },
      { resource: RLIMIT.processes, limit: spec.pidsLimit },
      { resource: RLIMIT.core, limit: 0 },
      { resource: RLIMIT.queuedSignals, limit: QUEUED_SIGNALS },
      { resource: RLIMIT.messageQueues, limit: 0 },
    ],
    shares,
    bridged: spec.network === 'bridge',
    runner: runnerConfig(spec, token, user),
  }
}
