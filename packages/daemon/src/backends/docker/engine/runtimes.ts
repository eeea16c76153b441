// The engine's runtimes that sessions may ask for. Kata Containers, for example, gives a container a kernel of its own.
import { SandglassError } from '@sandglass/contract/tables'
import type Docker from 'dockerode'
import type { RuntimeReport } from '../../backend.ts'
import { unsupported } from '../../machine/refusals.ts'
import { engineMessage } from './engine.ts'

/** containerd shims. The engine can use any by its type, but lists only those in its configuration. */
const SHIM = /^io\.containerd\./
const CONFIGURE = 'https://docs.docker.com/reference/cli/dockerd/#configure-container-runtimes'

export class EngineRuntimes {
  readonly #allowed: readonly string[]
  readonly #open: () => Promise<Docker>

  constructor(allowed: readonly string[], open: () => Promise<Docker>) {
    this.#allowed = allowed
    this.#open = open
  }

  /** SECURITY: an engine may have runtimes with weaker isolation than its default, so the operator lists those that sessions may use. */
  async check(name: string): Promise<void> {
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
      return this.#allowed.map(name => ({ name, version: null, why: engineMessage(error), fix: 'see docker above' }))
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
