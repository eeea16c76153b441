// Runtimes of the engine that sessions may ask for. Kata Containers gives a container a kernel of its own.
import { SandglassError } from '@sandglass/contract/tables'
import type Docker from 'dockerode'
import type { RuntimeReport } from '../../backend.ts'
import { unsupported } from '../../machine/unsupported.ts'
import { engineSays } from './engine.ts'

/** Shims of containerd. The engine knows them by their type, and lists none that it was not told of. */
const SHIM = /^io\.containerd\./
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

function describe(name: string, known: readonly string[]): RuntimeReport {
  if (known.includes(name)) return { name, version: 'known to the engine', why: null, fix: null }
  if (SHIM.test(name)) return { name, version: 'a shim, which the engine looks for at a start', why: null, fix: null }
  const why = `the engine has no runtime ${name}: it has ${known.join(', ')}`
  return { name, version: null, why, fix: `add it to the engine’s daemon.json and restart the engine (${CONFIGURE})` }
}
