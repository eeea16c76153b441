// The configuration that a runner receives first, the same on every backend.
import { FILE_ROOTS, LIMITS, SANDBOX_HOME, WORKSPACE } from '@sandglass/contract/tables'
import type { MachineSpec } from '../backend.ts'
import { SANDBOX_ID } from '../rootfs/image-users.ts'
import { trustEnv } from '../rootfs/trust/trust-env.ts'

/** Threads that a machine may have for its runner, in addition to the session's process limit: a Go program that cannot create a thread dies. */
export const RUNNER_THREADS = 32
const MAX_SHELLS = 64

export interface RunnerTokens {
  readonly token: string
  /** Null for a machine without egress. */
  readonly egressToken: string | null
}

// SECURITY: tokens and environment reach the runner through a pipe or a port of its machine, never through argv, the environment or a file.
export function runnerConfig(spec: MachineSpec, { token, egressToken }: RunnerTokens, user: string): object {
  return {
    token,
    workdir: spec.isBuild ? '/' : WORKSPACE,
    home: SANDBOX_HOME,
    user: { name: user, uid: SANDBOX_ID, gid: SANDBOX_ID },
    env: {
      ...(spec.trust === null ? {} : trustEnv()),
      ...(spec.image.kind === 'layers' ? spec.image.env : {}),
      ...spec.env,
    },
    file_roots: FILE_ROOTS,
    loopback: [],
    max_shells: MAX_SHELLS,
    warm_shell: true,
    ...egressConfig(egressToken),
  }
}

/** Without it, the runner resolves no names and accepts no connections to the network. */
export function egressConfig(token: string | null): object {
  if (token === null) return {}
  return { egress: { token, max_names: LIMITS.egress_names.max, max_waiting: LIMITS.egress_connections.max } }
}
