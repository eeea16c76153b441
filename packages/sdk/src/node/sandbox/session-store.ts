// `task.sessionStore`.
import { type AgentName, SandglassError } from '@sandglass/contract/tables'
import type { SandboxClient } from '../../client.ts'
import type { ContextFile, ContextReply } from '../../wire-types.ts'
import { sandboxError } from './errors.ts'

/** What a context remembers: its replies and its model. SECURITY: texts and events were written by an agent in a sandbox. */
export class SessionStore {
  readonly #client: SandboxClient
  readonly #context: string
  readonly #agent: AgentName | undefined
  #model: string | undefined

  /** `agent` selects whose conversation is resumed; the last one's when undefined. */
  constructor(client: SandboxClient, context: string, agent: AgentName | undefined, model: string | undefined) {
    this.#client = client
    this.#context = context
    this.#agent = agent
    this.#model = model
  }

  /** context.json; null before the first execution. */
  async load(): Promise<ContextFile | null> {
    try {
      return await this.#client.contexts.file(this.#context)
    } catch (error) {
      if (error instanceof SandglassError && error.is('CONTEXT_NOT_FOUND')) return null
      throw sandboxError(error)
    }
  }

  /** The conversation that the next execution resumes unless it names another; null for none. */
  async getSessionIdForResume(): Promise<string | null> {
    const isResumable = ({ agent, sessionId }: ContextReply) =>
      sessionId !== null && (this.#agent === undefined || agent === this.#agent)
    return (await this.#replies()).findLast(isResumable)?.sessionId ?? null
  }

  async getLastSuccessfulResponse(): Promise<string | null> {
    return (await this.#replies()).findLast(({ isError }) => !isError)?.responseText ?? null
  }

  /** The model of the next execution; null for the default of the agent. */
  async getModel(): Promise<string | null> {
    return this.#model ?? (await this.load())?.model ?? null
  }

  /** The model of later executions. The context keeps it from the next execution on. */
  setModel(model: string): void {
    this.#model = model
  }

  /** The model that was set here; undefined leaves that of the context. */
  get givenModel(): string | undefined {
    return this.#model
  }

  async #replies(): Promise<readonly ContextReply[]> {
    return (await this.load())?.replies ?? []
  }
}
