// `task.networkLog`.
import { SandglassError } from '@sandglass/contract/tables'
import type { SandboxClient } from '../../client.ts'
import type { SessionNetwork } from '../../session/network.ts'
import type { Cancel, NetworkEntry } from '../../wire-types.ts'
import { sandboxError } from './errors.ts'

/** What a context has sent over the network. SECURITY: programs in the sandbox choose parts of it, such as URLs. */
export class NetworkLog {
  readonly #client: SandboxClient
  readonly #context: string

  constructor(client: SandboxClient, context: string) {
    this.#client = client
    this.#context = context
  }

  /** One line per entry; empty before the first execution. */
  async text(options: Cancel = {}): Promise<string> {
    try {
      return (await (await this.#network(options))?.logText(options)) ?? ''
    } catch (error) {
      throw sandboxError(error)
    }
  }

  async entries(options: Cancel = {}): Promise<NetworkEntry[]> {
    const found: NetworkEntry[] = []
    for await (const entry of this.#read(false, options)) found.push(entry)
    return found
  }

  /** The entries so far, then new ones as they are written, until the session of the context ends. */
  follow(options: Cancel = {}): AsyncGenerator<NetworkEntry, void, undefined> {
    return this.#read(true, options)
  }

  async *#read(follow: boolean, options: Cancel): AsyncGenerator<NetworkEntry, void, undefined> {
    try {
      const network = await this.#network(options)
      if (network) yield* network.log({ follow, ...options })
    } catch (error) {
      options.signal?.throwIfAborted()
      throw sandboxError(error)
    }
  }

  /** Undefined while the context has no session. */
  async #network({ signal }: Cancel): Promise<SessionNetwork | undefined> {
    const { sessionId } = await this.#client.contexts.get(this.#context, { signal }).catch(error => {
      if (error instanceof SandglassError && error.is('CONTEXT_NOT_FOUND')) return { sessionId: null }
      throw error
    })
    return sessionId === null ? undefined : this.#client.session(sessionId).network
  }
}
