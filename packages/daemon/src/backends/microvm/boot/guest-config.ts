// The configuration of a session, the first message on the control port of a waiting machine. It is never written to a file.
import { randomBytes } from 'node:crypto'
import { z } from 'zod'
import type { MachineSpec } from '../../backend.ts'
import { RUNNER_THREADS, type RunnerTokens, runnerConfig } from '../../machine/runner-config.ts'

const GuestShare = z.strictObject({
  type: z.enum(['virtiofs', '9p']),
  tag: z.string(),
  target: z.string(),
  readonly: z.boolean(),
})
export type GuestShare = z.infer<typeof GuestShare>

/** The guest (runner/internal/guest) decodes it strictly; runner/testdata/launcher/guest-config.json is an example for both sides. */
export const GuestConfig = z.strictObject({
  type: z.literal('config'),
  hostname: z.string(),
  entropy: z.base64(),
  clock_ms: z.int(),
  readonly_root: z.boolean(),
  names: z.record(z.string(), z.string()),
  limits: z.strictObject({ memory_bytes: z.int(), pids: z.int(), cpu_quota_usec: z.int() }),
  rlimits: z.array(z.strictObject({ resource: z.int(), limit: z.int() })),
  shares: z.array(GuestShare).readonly(),
  bridged: z.boolean(),
  runner: z.record(z.string(), z.unknown()),
})
export type GuestConfig = z.infer<typeof GuestConfig>

const ENTROPY_BYTES = 256
const CPU_PERIOD_USEC = 100_000
const MIB = 1024 * 1024
const OPEN_FILES = 65_536
const QUEUED_SIGNALS = 1024
/** The kernel's numbers, the same on x64 and arm64. */
const RLIMIT = { core: 4, processes: 6, openFiles: 7, queuedSignals: 11, messageQueues: 12 }

// SECURITY: tokens, environment and entropy are in no argv, in no file, and in no snapshot, which is taken before this message.
/** `limitsCpu`: the machine's own kernel limits the session to a part of a processor. */
export function guestConfig(
  spec: MachineSpec,
  tokens: RunnerTokens,
  user: string,
  shares: readonly GuestShare[],
  limitsCpu: boolean,
): GuestConfig {
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
    runner: { ...runnerConfig(spec, tokens, user) },
  }
}
