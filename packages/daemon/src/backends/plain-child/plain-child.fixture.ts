// A plain-child backend in a temporary folder. Both end with the test, and so does everything that it started.
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { onTestFinished } from 'vitest'
import type { MachineSpec } from '../backend.ts'
import { launcherBeside } from '../launcher/program.ts'
import { PlainChildBackend } from './backend.ts'

/** Built before the tests by vitest's global setup. */
export const RUNNER_PATH = fileURLToPath(new URL('../../../../../runner/bin/runner', import.meta.url))
export const LAUNCHER_PATH = launcherBeside(RUNNER_PATH)

export async function plainChildFixture(): Promise<{ backend: PlainChildBackend; folder: string }> {
  const folder = await mkdtemp(join(tmpdir(), 'sg-'))
  const backend = new PlainChildBackend({ forTests: true, folder, runnerPath: RUNNER_PATH })
  onTestFinished(async () => {
    for (const id of await backend.sessionIds()) await backend.discard(id)
    await rm(folder, { recursive: true, force: true })
  })
  return { backend, folder }
}

export function specFixture(id: string, changes: Partial<MachineSpec> = {}): MachineSpec {
  return {
    id,
    name: 'test',
    image: { kind: 'host' },
    trust: null,
    cpuCores: 0.5,
    memoryMb: 512,
    diskMb: 1024,
    pidsLimit: 256,
    readonlyRootfs: true,
    runtime: null,
    network: 'none',
    egress: false,
    mounts: [],
    packages: [],
    nestedVirt: false,
    canPause: false,
    persist: false,
    env: {},
    allowUnenforced: ['cpu', 'memory', 'pids', 'disk'],
    ...changes,
  }
}
