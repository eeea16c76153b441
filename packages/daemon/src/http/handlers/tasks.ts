// Handlers of tasks, contexts and uploads.
import { createReadStream } from 'node:fs'
import { Readable } from 'node:stream'
import { SandglassError, type TaskEvent } from '@sandglass/contract'
import { stderrName } from '../../tasks/agent-run/follow-agent.ts'
import { prepareScreen } from '../../tasks/agent-screen.ts'
import { taskFolder } from '../../tasks/context.ts'
import { contextText } from '../../tasks/contexts/context-file.ts'
import { getContext, getContextRow, listContexts } from '../../tasks/contexts/context-rows.ts'
import { contextNetworkLog } from '../../tasks/contexts/network-log.ts'
import { removeContext } from '../../tasks/contexts/remove-context.ts'
import { createTasks } from '../../tasks/create.ts'
import { taskEvents } from '../../tasks/events.ts'
import { requestStop } from '../../tasks/queue.ts'
import { sizeOf, statePath } from '../../tasks/results/agent-state.ts'
import { bundlePath, patchPath } from '../../tasks/results/repository.ts'
import { showResult } from '../../tasks/task-record.ts'
import { getEndedTask, getTask, getTaskRow, listTasks, removeTask } from '../../tasks/tasks.ts'
import { createUpload } from '../../tasks/uploads.ts'
import type { Api, BytesReply, Handlers, SseEvent } from '../api.ts'
import { createTasksOnce } from '../requests/idempotency.ts'
import { lastEventId } from '../requests/last-event-id.ts'

export const taskHandlers = ({ context, tasks }: Api) =>
  ({
    prepareAgent: ({ params, body }) => prepareScreen(tasks, params.id, params.agent, body),
    createUpload: ({ request }) => createUpload(tasks, request.raw),
    createTask: async ({ body, request }) => ({
      items: await createTasksOnce(context, request, body, {
        run: pending => createTasks(tasks, body, pending),
        replay: ids => Promise.all(ids.map(id => getTask(tasks, id))),
      }),
    }),
    listTasks: ({ query }) => listTasks(tasks, query),
    getTask: ({ params }) => getTask(tasks, params.id),
    taskEvents: async ({ params, query, request, signal }) =>
      eventStream(await taskEvents(tasks, params.id, query, lastEventId(request), signal), signal),
    taskResult: async ({ params }) => showResult(await getEndedTask(tasks, params.id)),
    taskPatch: async ({ params }) => {
      await getTaskRow(tasks, params.id)
      return resultFile(params.id, 'patch', patchPath(tasks, params.id), 'text/x-diff; charset=utf-8')
    },
    taskBundle: async ({ params }) => {
      await getTaskRow(tasks, params.id)
      return resultFile(params.id, 'bundle', bundlePath(tasks, params.id), 'application/octet-stream')
    },
    taskStderr: async ({ params }) => {
      const { id, tries } = await getTaskRow(tasks, params.id)
      const path = `${taskFolder(tasks, id)}/${stderrName(Math.max(1, tries))}`
      const headers = { 'content-type': 'text/plain; charset=utf-8' }
      return { headers, chunks: (await sizeOf(path)) === null ? Readable.from([]) : createReadStream(path) }
    },
    stopTask: async ({ params, log }) => {
      const { status } = await getTaskRow(tasks, params.id)
      if (status !== 'done') {
        log.info({ taskId: params.id }, 'task stopped by request')
        await requestStop(tasks, params.id)
      }
      return getTask(tasks, params.id)
    },
    deleteTask: async ({ params }) => {
      await removeTask(tasks, params.id)
      return { ok: true }
    },
    listContexts: ({ query }) => listContexts(tasks, query),
    getContext: ({ params }) => getContext(tasks, params.id),
    contextFile: async ({ params }) => {
      const { folder } = await getContextRow(tasks, params.id)
      const text = await contextText(tasks, folder)
      return { headers: { 'content-type': 'application/json; charset=utf-8' }, chunks: Readable.from([Buffer.from(text)]) }
    },
    contextState: async ({ params }) => {
      const { folder } = await getContextRow(tasks, params.id)
      const path = statePath(tasks, folder, params.agent)
      const headers = { 'content-type': 'application/x-tar' }
      return { headers, chunks: (await sizeOf(path)) === null ? Readable.from([EMPTY_TAR]) : createReadStream(path) }
    },
    contextNetworkLog: async ({ params }) => {
      const { folder } = await getContextRow(tasks, params.id)
      return { headers: { 'content-type': 'text/plain; charset=utf-8' }, chunks: contextNetworkLog(tasks, folder) }
    },
    deleteContext: async ({ params, log }) => {
      await removeContext(tasks, params.id)
      log.info({ context: params.id }, 'context removed')
      return { ok: true }
    },
  }) satisfies Partial<Handlers>

/** A tar without entries: the agent has kept nothing so far. */
const EMPTY_TAR = Buffer.alloc(1024)

/** The last event tells a client that there is no more, and that it need not connect again. */
async function* eventStream(events: AsyncIterable<TaskEvent>, signal: AbortSignal): AsyncGenerator<SseEvent, void, undefined> {
  for await (const data of events) yield { id: data.id, event: `task.${data.type}`, data }
  if (!signal.aborted) yield { event: 'end', data: {} }
}

async function resultFile(id: string, what: string, path: string, type: string): Promise<BytesReply> {
  const size = await sizeOf(path)
  if (size === null) throw new SandglassError('TASK_HAS_NO_RESULT', { id, what })
  return { headers: { 'content-type': type, 'content-length': size }, chunks: createReadStream(path) }
}
