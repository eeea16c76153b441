// The configuration that a runner receives first, the same on every backend.
import { FILE_ROOTS } from '@sandglass/contract/tables'
import type { MachineSpec } from '../backend.ts'
import { SANDBOX_ID } from '../rootfs/image-users.ts'

/** Threads that a machine may have for its runner, in addition to the session's process limit: a Go program that cannot create a thread dies. */
export const RUNNER_THREADS = 32
const MAX_SHELLS = 64

// SECURITY: token and environment reach the runner through a pipe or a port of its machine, never through argv, the environment or a file.
export function runnerConfig(spec: MachineSpec, token: string, user: string): object {
  return {
    token,
    workdir: '/workspace',
    home: '/home/sandbox',
    user: { name: user, uid: SANDBOX_ID, gid: SANDBOX_ID },
    env: spec.image.kind === 'layers' ? { ...spec.image.env, ...spec.env } : spec.env,
    file_roots: FILE_ROOTS,
    loopback: [],
    max_shells: MAX_SHELLS,
    warm_shell: true,
  }
}
