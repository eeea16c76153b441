// Runtimes of the engine that sessions may ask for. gVisor and Kata Containers give a container a kernel of its own.
import { SandglassError } from '@sandglass/contract/tables'
import type Docker from 'dockerode'
import type { LimitKind, MachineSpec, Probe, RuntimeReport } from '../backend.ts'
import { unenforced } from '../unenforced.ts'
import { unsupported } from '../unsupported.ts'
import { engineSays } from './engine.ts'
import { readStats, type Shown } from './machine.ts'

/** Shims of containerd. The engine knows them by their type, and lists none that it was not told of. */
const SHIM = /^io\.containerd\./
const MiB = 1024 * 1024
const CONFIGURE = 'https://docs.docker.com/reference/cli/dockerd/#configure-container-runtimes'

export class EngineRuntimes {
  readonly #allowed: readonly string[]
  readonly #open: () => Promise<Docker>

  constructor(allowed: readonly string[], open: () => Promise<Docker>) {
    this.#allowed = allowed
    this.#open = open
  }

  /** SECURITY: an engine may have runtimes that isolate less than its own. A session names one that the operator named. */
  async refuse(name: string): Promise<void> {
    if (!this.#allowed.includes(name)) {
      const allowed = this.#allowed.join(', ') || 'none'
      throw unsupported(
        `the runtime ${JSON.stringify(name)} with docker: backends.docker.runtimes names ${allowed}`,
        'use one of them, or add the engine’s name of yours to backends.docker.runtimes in the configuration',
      )
    }
    const { why, fix } = describe(name, await this.#known())
    if (why !== null) throw new SandglassError('BACKEND_UNAVAILABLE', { backend: 'docker', why: `${why}; ${fix}` })
  }

  async report(): Promise<RuntimeReport[]> {
    if (this.#allowed.length === 0) return []
    try {
      const known = await this.#known()
      return this.#allowed.map(name => describe(name, known))
    } catch (error) {
      return this.#allowed.map(name => ({ name, version: null, why: engineSays(error), fix: 'see docker above' }))
    }
  }

  async #known(): Promise<string[]> {
    const { Runtimes = {} } = (await (await this.#open()).info()) as { Runtimes?: Readonly<Record<string, unknown>> }
    return Object.keys(Runtimes)
  }
}

/** The engine's own, whose limits are the kernel's cgroups. */
const OWN = ['runc', 'crun', 'io.containerd.runc.v2']

/**
 * Limits that a machine goes without, or a refusal. SECURITY: a runtime may take a limit and forget it, as Kata Containers 1 does with the number of
 * processes. What the engine does not show is not kept.
 */
export async function unkept(container: Docker.Container, shown: Shown, spec: MachineSpec, probe: Probe): Promise<LimitKind[]> {
  const { Runtime: runtime = '' } = shown.HostConfig
  if (OWN.includes(runtime)) return [...unenforced('docker', probe, spec.allowUnenforced)]
  const { memoryLimit, pidsLimit } = await readStats(container, null)
  const unenforceable = new Set(probe.unenforceable)
  // It may be less: no more than the machine has.
  if (memoryLimit === null || memoryLimit > spec.memoryMb * MiB) unenforceable.add('memory')
  if (pidsLimit === null || pidsLimit > spec.pidsLimit) unenforceable.add('pids')
  const unenforceableWhy = `with its runtime ${runtime} the engine shows no such limit`
  return [...unenforced('docker', { ...probe, unenforceable: [...unenforceable], unenforceableWhy }, spec.allowUnenforced)]
}

function describe(name: string, known: readonly string[]): RuntimeReport {
  if (known.includes(name)) return { name, version: 'known to the engine', why: null, fix: null }
  if (SHIM.test(name)) return { name, version: 'a shim, which the engine looks for at a start', why: null, fix: null }
  const why = `the engine has no runtime ${name}: it has ${known.join(', ')}`
  return { name, version: null, why, fix: `add it to the engine’s daemon.json and restart the engine (${CONFIGURE})` }
}
