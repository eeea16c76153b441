// Follows tasks to their end and shows their events, for `run -a` and `task follow`.

import type { SandboxClient, TaskEventsOptions, TaskInfo } from '@sandglass/sdk'
import type { Context } from '../command.ts'
import { INTERRUPTED, TERMINATED } from '../exec/exit-codes.ts'
import { exitNow } from '../exec/interrupts.ts'
import { LiveView } from './live-view.ts'

export type FollowOptions = Pick<TaskEventsOptions, 'tail' | 'raw' | 'follow'> & {
  /** Ctrl-C stops the tasks; otherwise it only ends the view. */
  stopsTasks: boolean
}

export type Followed = {
  tasks: TaskInfo[]
  /** The exit code after a signal; undefined without one. */
  signalled: number | undefined
}

/** Resolves with the last state of each task. */
export async function followTasks(
  client: SandboxClient,
  tasks: readonly TaskInfo[],
  { stopsTasks, ...query }: FollowOptions,
  context: Context,
): Promise<Followed> {
  using view = new LiveView(context)
  using signals = new StopOnSignal(client, tasks, stopsTasks, view, context)
  for (const task of tasks) view.add(task)
  const isOneOfSeveral = tasks.length > 1
  const follow = async (task: TaskInfo): Promise<TaskInfo> => {
    for await (const event of client.tasks.events(task.id, query)) view.show(task, event, isOneOfSeveral)
    view.end(task.id)
    return query.follow === false ? client.tasks.get(task.id) : client.tasks.wait(task.id)
  }
  const ended = await Promise.all(tasks.map(follow))
  return { tasks: ended, signalled: signals.code }
}

/** The first Ctrl-C or SIGTERM stops the tasks, whose end is awaited; the second one leaves at once. */
class StopOnSignal implements Disposable {
  code: number | undefined
  readonly #client: SandboxClient
  readonly #tasks: readonly TaskInfo[]
  readonly #stopsTasks: boolean
  readonly #view: LiveView
  readonly #context: Context

  constructor(client: SandboxClient, tasks: readonly TaskInfo[], stopsTasks: boolean, view: LiveView, context: Context) {
    this.#client = client
    this.#tasks = tasks
    this.#stopsTasks = stopsTasks
    this.#view = view
    this.#context = context
    process.on('SIGINT', this.#onInterrupt).on('SIGTERM', this.#onTerminate)
  }

  [Symbol.dispose](): void {
    process.off('SIGINT', this.#onInterrupt).off('SIGTERM', this.#onTerminate)
  }

  readonly #onInterrupt = () => this.#stop(INTERRUPTED)
  readonly #onTerminate = () => this.#stop(TERMINATED)

  #stop(code: number): void {
    const isSecond = this.code !== undefined
    this.code = code
    this.#view.clear()
    const [first] = this.#tasks
    if (!this.#stopsTasks) exitNow(code)
    if (isSecond) {
      this.#context.say(`sandglass: left while stopping; \`sandglass task show ${first?.id ?? 'last'}\` shows the end\n`)
      exitNow(code)
    }
    this.#context.say('sandglass: stopping the agent; Ctrl-C once more leaves at once\n')
    for (const { id } of this.#tasks) this.#client.tasks.stop(id).catch(this.#context.report)
  }
}
