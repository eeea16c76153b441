import type { AgentName } from '@sandglass/contract/tables'
import { toCamel } from './transport/case.ts'
import { unreachable } from './transport/errors.ts'
import { readToEnd } from './transport/resume-events.ts'
import type { Transport } from './transport/transport.ts'
import type { AgentInfo, Cancel, InstallOptions, InstallProgress } from './wire-types.ts'

/** The coding agents, and their versions that the daemon has installed. */
export class Agents {
  readonly #transport: Transport

  constructor(transport: Transport) {
    this.#transport = transport
  }

  async list({ signal }: Cancel = {}): Promise<AgentInfo[]> {
    return (await this.#transport.json('listAgents', { signal })).items
  }

  /** Installs an agent and resolves when it is installed. New sessions get this version; without `version`, the pinned one. */
  async install(agent: AgentName, options: InstallOptions = {}): Promise<InstallProgress> {
    const { onProgress, signal, ...body } = options
    for await (const { data } of readToEnd(this.#transport, 'installAgent', { params: { agent }, body, signal })) {
      const progress = toCamel(JSON.parse(data)) as InstallProgress
      onProgress?.(progress)
      if (progress.step === 'done') return progress
    }
    throw unreachable(this.#transport.options.address, new Error('the stream ended before the installation did'))
  }

  /** Removes the installed versions that no session uses. */
  async remove(agent: AgentName, { signal }: Cancel = {}): Promise<void> {
    await this.#transport.json('deleteAgent', { params: { agent }, signal })
  }
}
