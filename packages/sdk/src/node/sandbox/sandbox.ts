// sandbox/ is the facade for programs that run coding agents: a sandbox makes tasks, a task executes prompts in one context. It is written on
// the client; what it adds is folders on this side, secrets of a context, and results in place of most errors.
import { type AgentName, SandglassError } from '@sandglass/contract/tables'
import type { SandboxClient } from '../../client.ts'
import type { BuildStep, Cancel, ImageProgress, InstallProgress } from '../../wire-types.ts'
import { connectLocal, type LocalOptions } from '../connect-local.ts'
import { buildError, SandboxError, sandboxError } from './errors.ts'
import { type Lifetime, Task } from './task.ts'
import type { CreateTaskOptions } from './task-options.ts'

export type SandboxOptions = LocalOptions & {
  /** A client of a daemon; when absent that of this machine, with the other options of `connectLocal`. */
  client?: SandboxClient
}

export type StartupOptions = {
  /** Agents to install if they are not, so that the first task does not wait for it. */
  agents?: readonly AgentName[]
  onProgress?: (progress: InstallProgress) => void
} & Cancel

/** A step that begins, output of the steps in whole lines, or the progress of a layer. */
export type ImageBuildProgress = BuildStep | ImageProgress | { text: string }

export type EnsureImageOptions = {
  /** Path of the Dockerfile. */
  dockerfile: string
  /** Folder with the files that the Dockerfile copies; that of the Dockerfile when absent. */
  contextDir?: string
  /** Name of the image; without one it is addressed by its id, until it exceeds its maximum age. */
  reference?: string
  /** Maximum age of an image that was built from the same content; the daemon's own when absent. */
  maxAgeSeconds?: number
  /** Build every step again. */
  force?: boolean
  buildArgs?: Record<string, string>
  onProgress?: (progress: ImageBuildProgress) => void
} & Cancel

export class Sandbox {
  readonly client: SandboxClient
  readonly #lifetime: Lifetime = { isOver: false, executing: new Set() }

  constructor({ client, ...local }: SandboxOptions = {}) {
    this.client = client ?? connectLocal(local)
  }

  /** Connects to the daemon, starts it if none runs, and installs the given agents. */
  async startup({ agents = [], onProgress, signal }: StartupOptions = {}): Promise<void> {
    this.#requireOpen()
    try {
      await this.client.health({ signal })
      if (agents.length === 0) return
      const known = await this.client.agents.list({ signal })
      for (const agent of agents) {
        const found = known.find(info => info.agent === agent)
        const isInstalled = found?.installed.some(({ version }) => version === found.version)
        if (!isInstalled) await this.client.agents.install(agent, { version: found?.version, onProgress, signal })
      }
    } catch (error) {
      signal?.throwIfAborted()
      throw sandboxError(error)
    }
  }

  /** Stops the executions of this sandbox and resolves when they have ended. No task can be created or executed after that. */
  async shutdown(): Promise<void> {
    this.#lifetime.isOver = true
    await Promise.all(
      [...this.#lifetime.executing].map(async task => {
        await task.stop()
        await task.settled()
      }),
    )
  }

  /** Builds an image, unless one of the same content is young enough. Returns its reference, or without one its id. */
  async ensureImage({ dockerfile, contextDir, force, onProgress, ...options }: EnsureImageOptions): Promise<string> {
    this.#requireOpen()
    try {
      const { buildContext } = await import('./build-context.ts')
      const context = await buildContext(dockerfile, contextDir)
      const { image } = await this.client.images.build(context.tar, {
        ...options,
        dockerfile: context.dockerfile,
        noCache: force,
        onStep: onProgress,
        onProgress,
        onOutput: text => onProgress?.({ text }),
      })
      return options.reference ?? image.id
    } catch (error) {
      options.signal?.throwIfAborted()
      throw buildError(error)
    }
  }

  /** Binds a context. Nothing runs before `execute`. */
  createTask(options: CreateTaskOptions): Task {
    this.#requireOpen()
    return new Task(this.client, options, this.#lifetime)
  }

  /** Removes a context with its session, tasks and files, and the secrets and the policy that its tasks have stored. */
  async removeContext(executionContextId: string): Promise<void> {
    try {
      const { removeSecrets } = await import('./context-secrets.ts')
      await this.client.contexts.remove(executionContextId).catch(ifRemoved)
      await removeSecrets(this.client, executionContextId)
    } catch (error) {
      throw sandboxError(error)
    }
  }

  #requireOpen(): void {
    if (this.#lifetime.isOver) throw new SandboxError('the sandbox was shut down')
  }
}

function ifRemoved(error: unknown): void {
  if (!(error instanceof SandglassError) || !error.is('CONTEXT_NOT_FOUND')) throw error
}
