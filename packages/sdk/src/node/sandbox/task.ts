// One context and its executions.
import type { AgentName } from '@sandglass/contract/tables'
import type { SandboxClient } from '../../client.ts'
import type { TaskEvent, TaskInfo } from '../../wire-types.ts'
import { SandboxError, sandboxError } from './errors.ts'
import { type ExecutionResult, executionResult, stoppedResult } from './execution-result.ts'
import { NetworkLog } from './network-log.ts'
import { SessionStore } from './session-store.ts'
import { type CreateTaskOptions, checkOptions } from './task-options.ts'

export type ExecuteOptions = {
  /** Conversation of the agent: undefined resumes the last one of the context, null begins one, a text resumes that one. */
  sessionId?: string | null
  /** The context keeps it for later executions. */
  model?: string
  /** Called with each event once, in order. An error that it throws stops the execution, and `execute` throws it. */
  onEvent?: (event: TaskEvent) => void
  /** Events also have the agent's own lines. */
  raw?: boolean
  /** Aborting it is the same as `stop()`: the execution ends with the reason `stopped`. */
  signal?: AbortSignal
}

/** What the tasks of one `Sandbox` share. */
export type Lifetime = { isOver: boolean; readonly executing: Set<Task> }

/** An execution under way. `id` is known when the daemon has the task. */
type Execution = { isStopped: boolean; id: string | undefined; done: Promise<unknown> }

/**
 * Executes prompts in one context, one at a time. How the agent fails is an outcome of the result; a `SandboxError` means that the
 * infrastructure failed.
 */
export class Task {
  readonly executionContextId: string
  readonly sessionStore: SessionStore
  readonly networkLog: NetworkLog
  readonly #client: SandboxClient
  readonly #options: CreateTaskOptions
  readonly #lifetime: Lifetime
  #execution: Execution | undefined
  #wasExecuted = false
  #isStoppedBefore = false
  #stored: Promise<Stored> | undefined

  constructor(client: SandboxClient, options: CreateTaskOptions, lifetime: Lifetime) {
    checkOptions(options)
    const { executionContextId, agent, model } = options
    this.#client = client
    this.#options = options
    this.#lifetime = lifetime
    this.executionContextId = executionContextId
    this.sessionStore = new SessionStore(client, executionContextId, agent, model)
    this.networkLog = new NetworkLog(client, executionContextId)
  }

  /** Runs the agent on a prompt and resolves when it has ended, whatever the outcome. */
  async execute(prompt: string, options: ExecuteOptions = {}): Promise<ExecutionResult> {
    if (this.#lifetime.isOver) throw new SandboxError('the sandbox was shut down')
    if (this.#execution) throw new SandboxError(`context ${this.executionContextId} is being executed; wait for it or stop it`)
    const isStopped = this.#isStoppedBefore || options.signal?.aborted === true
    const execution: Execution = { isStopped, id: undefined, done: Promise.resolve() }
    this.#execution = execution
    this.#wasExecuted = true
    this.#isStoppedBefore = false
    this.#lifetime.executing.add(this)
    const abort = () => void this.#stopExecution(execution).catch(() => undefined) // the execution itself meets the same failure
    options.signal?.addEventListener('abort', abort, { once: true })
    try {
      const result = this.#execute(prompt, options, execution)
      execution.done = result.catch(() => undefined)
      return await result
    } finally {
      options.signal?.removeEventListener('abort', abort)
      this.#lifetime.executing.delete(this)
      this.#execution = undefined
    }
  }

  /**
   * Stops what runs in the context, also if another program started it. True if something was stopped. If nothing runs and this task was not
   * executed yet, its next execution ends at once with the reason `stopped`.
   */
  async stop(): Promise<boolean> {
    try {
      if (this.#execution) return await this.#stopExecution(this.#execution)
      this.#isStoppedBefore = !this.#wasExecuted // before the first await: an execution may begin meanwhile
      const isStopped = await this.#stopElsewhere()
      if (isStopped) this.#isStoppedBefore = false
      return isStopped
    } catch (error) {
      throw sandboxError(error)
    }
  }

  /** Resolves when no execution is under way. */
  async settled(): Promise<void> {
    await this.#execution?.done
  }

  async #execute(prompt: string, options: ExecuteOptions, execution: Execution): Promise<ExecutionResult> {
    let failed: { error: unknown } | undefined
    const listen = (event: TaskEvent) => {
      if (failed) return
      try {
        options.onEvent?.(event)
      } catch (error) {
        failed = { error }
        void this.#stopExecution(execution).catch(() => undefined) // as in execute
      }
    }
    const result = await this.#run(prompt, options, execution, listen)
    if (failed) throw failed.error
    return result
  }

  async #run(
    prompt: string,
    { sessionId, model = this.sessionStore.givenModel, raw }: ExecuteOptions,
    execution: Execution,
    listen: (event: TaskEvent) => void,
  ): Promise<ExecutionResult> {
    let result: ExecutionResult | undefined
    try {
      if (execution.isStopped) return stoppedResult()
      const settings = { ...(await this.#settings()), prompt, context: this.executionContextId, model }
      if (execution.isStopped) return stoppedResult()
      const [task] = await this.#client.tasks.create({
        ...settings,
        resume: sessionId === null ? false : undefined,
        agentSessionId: sessionId ?? undefined,
      })
      if (!task) throw new SandboxError('the daemon has created no task')
      execution.id = task.id
      if (execution.isStopped) await this.#client.tasks.stop(task.id)
      for await (const event of this.#client.tasks.events(task.id, { raw })) listen(event)
      result = executionResult(await this.#client.tasks.result(task.id))
      await this.#mirror(task.agent)
      return result
    } catch (error) {
      throw sandboxError(error, result)
    }
  }

  async #stopExecution(execution: Execution): Promise<boolean> {
    execution.isStopped = true
    if (execution.id === undefined) return true
    return wasStopped(await this.#client.tasks.stop(execution.id))
  }

  /** Stops the running task of the context, or if there is none those that wait. */
  async #stopElsewhere(): Promise<boolean> {
    for (const status of ['running', 'queued'] as const) {
      const found = await this.#client.tasks.list({ context: this.executionContextId, status })
      const stopped = await Promise.all(found.map(async ({ id }) => wasStopped(await this.#client.tasks.stop(id))))
      if (stopped.includes(true)) return true
    }
    return false
  }

  /** Settings of every task of the context. Secrets are stored once, before the first task. */
  async #settings(): Promise<Omit<CreateTaskOptions, Own> & Stored> {
    const { executionContextId, sessionDir, networkLogDir, networkSandbox, maskedSecrets, signingCredential, ...settings } =
      this.#options
    const { storeSecrets } = await import('./context-secrets.ts')
    this.#stored ??= storeSecrets(this.#client, this.#options)
    try {
      return { ...settings, ...(await this.#stored) }
    } catch (error) {
      this.#stored = undefined
      throw error
    }
  }

  async #mirror(agent: AgentName): Promise<void> {
    const { sessionDir, networkLogDir } = this.#options
    if (sessionDir === undefined && networkLogDir === undefined) return
    const { mirror } = await import('./mirror.ts')
    const { networkLog } = this
    await mirror(this.#client, this.executionContextId, agent, { sessionDir, networkLogDir, networkLog })
  }
}

type Stored = import('./context-secrets.ts').Stored
/** Options of the facade that the daemon does not know. */
type Own = 'executionContextId' | 'sessionDir' | 'networkLogDir' | 'networkSandbox' | 'maskedSecrets' | 'signingCredential'

/** False for a task that ended in another way before. */
const wasStopped = ({ status, reason }: TaskInfo) => status !== 'done' || reason === 'stopped'
