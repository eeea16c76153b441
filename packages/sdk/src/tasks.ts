import { toCamel } from './transport/case.ts'
import { download, downloadText } from './transport/download.ts'
import { collect, PAGE_SIZE, paged } from './transport/pages.ts'
import { follow } from './transport/resume-events.ts'
import type { SseEvent } from './transport/sse.ts'
import { backoff, newIdempotencyKey, type Transport } from './transport/transport.ts'
import type {
  Cancel,
  Query,
  TaskEvent,
  TaskEventsOptions,
  TaskFilter,
  TaskInfo,
  TaskOptions,
  TaskPage,
  TaskResult,
} from './wire-types.ts'

/** Tasks: runs of coding agents. */
export class Tasks {
  readonly #transport: Transport

  constructor(transport: Transport) {
    this.#transport = transport
  }

  /**
   * Queues a task, or one for each attempt and agent. A lost request is repeated under the same idempotency key, so that one call runs the
   * prompt once.
   */
  async create(spec: TaskOptions, options: { idempotencyKey?: string } & Cancel = {}): Promise<TaskInfo[]> {
    const { signal, idempotencyKey = newIdempotencyKey() } = options
    return (await this.#transport.json('createTask', { body: spec, idempotencyKey, signal })).items
  }

  /** All tasks that match, newest first. */
  list(filter: TaskFilter & Cancel = {}): Promise<TaskInfo[]> {
    return collect(paged(cursor => this.page({ ...filter, limit: PAGE_SIZE, cursor })))
  }

  /** One page, with the total and the cursor of the next page. */
  page({ signal, ...query }: Query<'listTasks'> & Cancel = {}): Promise<TaskPage> {
    return this.#transport.json('listTasks', { query, signal })
  }

  get(id: string, { signal }: Cancel = {}): Promise<TaskInfo> {
    return this.#transport.json('getTask', { params: { id }, signal })
  }

  /**
   * The events of a task until it is done, each once and in order, across lost connections and restarts of the daemon. They begin with the
   * first one, after the event `after`, or with the last `tail` ones. `follow: false` ends after the events so far. SECURITY: all texts were
   * written by an agent in a sandbox.
   */
  async *events(id: string, options: TaskEventsOptions = {}): AsyncGenerator<TaskEvent, void, undefined> {
    const { after, tail, signal, ...query } = options
    let last = after
    for (let attempt = 0; ; attempt++) {
      const sent = follow(this.#transport, 'taskEvents', {
        params: { id },
        query: last === undefined ? { ...query, tail } : query,
        resumeQuery: query, // the last events of the first request are not the last ones any more
        lastEventId: last === undefined ? undefined : String(last),
        isFailure: event => event.type === 'error' && !isTaskEvent(event),
        isLast: event => event.type === 'end',
        endsItself: query.follow === false,
        signal,
      })
      for await (const event of sent) {
        if (!isTaskEvent(event)) continue
        const parsed = toCamel(JSON.parse(event.data)) as TaskEvent
        if (last !== undefined && parsed.id <= last) continue
        last = parsed.id
        attempt = 0
        yield parsed
      }
      // A daemon that stops may end the stream of a task that goes on.
      if (query.follow === false || (await this.get(id, { signal })).status === 'done') return
      await backoff(attempt, { signal })
    }
  }

  /** The result of a task that has ended; TASK_RUNNING before that. */
  result(id: string, { signal }: Cancel = {}): Promise<TaskResult> {
    return this.#transport.json('taskResult', { params: { id }, signal })
  }

  /** Resolves with the state of the task when it is done, whatever its outcome. */
  async wait(id: string, { signal }: Cancel = {}): Promise<TaskInfo> {
    for (;;) {
      const info = await this.get(id, { signal })
      if (info.status === 'done') return info
      for await (const _ of this.events(id, { tail: 1, signal }));
    }
  }

  /** Stops a task and resolves with its state. One that has ended stays as it is. */
  stop(id: string, { signal }: Cancel = {}): Promise<TaskInfo> {
    return this.#transport.json('stopTask', { params: { id }, signal })
  }

  /** Removes a task that has ended, with its events. */
  async remove(id: string, { signal }: Cancel = {}): Promise<void> {
    await this.#transport.json('deleteTask', { params: { id }, signal })
  }

  /** What the task has changed in its repository, as a patch. */
  patch(id: string, { signal }: Cancel = {}): Promise<ReadableStream<Uint8Array>> {
    return download(this.#transport, 'taskPatch', { params: { id }, signal })
  }

  /** The commits of the task, as a git bundle with its branch. */
  bundle(id: string, { signal }: Cancel = {}): Promise<ReadableStream<Uint8Array>> {
    return download(this.#transport, 'taskBundle', { params: { id }, signal })
  }

  /** The error output of the agent. */
  stderr(id: string, { signal }: Cancel = {}): Promise<string> {
    return downloadText(this.#transport, 'taskStderr', { params: { id }, signal })
  }
}

/** Errors that an agent reports are events of its task; a failure of the stream has no number. */
function isTaskEvent({ type, data }: SseEvent): boolean {
  return type !== 'end' && typeof (JSON.parse(data) as { id?: unknown }).id === 'number'
}
