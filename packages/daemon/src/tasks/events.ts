// Events of a task as the API gives them: from the first one, from an id on, or the last ones; until the task ends.
import type { TaskEvent, TaskEventsQuery } from '@sandglass/contract'
import { nextChange, type TaskContext, taskFolder } from './context.ts'
import { LogReader, type LogRecord } from './event-log.ts'
import { getTaskRow } from './tasks.ts'

/** A follower waits this long at most before it looks again: the daemon wakes it when there is something. */
const LOOK_AGAIN_MS = 5000

/** Events after the id `after`, oldest first. */
export async function taskEvents(
  tasks: TaskContext,
  id: string,
  { raw = false, tail, follow = true }: TaskEventsQuery,
  after: number | null,
  signal: AbortSignal,
): Promise<AsyncGenerator<TaskEvent, void, undefined>> {
  const { event_count } = await getTaskRow(tasks, id)
  const first = after ?? (tail === undefined ? 0 : Math.max(0, (await lastId(tasks, id, event_count)) - tail))
  return events(tasks, id, { raw, follow, first }, signal)
}

async function* events(
  tasks: TaskContext,
  id: string,
  { raw, follow, first }: { raw: boolean; follow: boolean; first: number },
  signal: AbortSignal,
): AsyncGenerator<TaskEvent, void, undefined> {
  let reader = await LogReader.open(taskFolder(tasks, id))
  try {
    for (let isLast = !follow; !signal.aborted; ) {
      // Before the log is read, so that no change between the two is missed.
      const change = nextChange(tasks, id, AbortSignal.any([signal, AbortSignal.timeout(LOOK_AGAIN_MS)]))
      if (!reader.isOpen) reader = await LogReader.open(taskFolder(tasks, id))
      let isQuiet = true
      for await (const record of reader.records()) {
        isQuiet = record.events.some(isEnd)
        if (record.id + record.events.length <= first + 1) continue
        for (const event of eventsOf(record, raw)) if (event.id > first) yield event
      }
      if (isLast) return
      // The row is asked only when there was nothing to read, or the last event: not for every line of a busy agent.
      isLast = isQuiet && (await getTaskRow(tasks, id)).status === 'done'
      if (!isLast) await change
    }
  } finally {
    await reader[Symbol.asyncDispose]()
  }
}

const isEnd = (event: LogRecord['events'][number]) => event.type === 'status' && event.status === 'done'

/** The line of the agent is with its first event. */
function eventsOf({ id, at, events, raw: line, truncated }: LogRecord, raw: boolean): TaskEvent[] {
  const time = new Date(at).toISOString()
  return events.map((event, index) => ({
    ...event,
    id: id + index,
    at: time,
    ...(truncated && { truncated }),
    ...(raw && line !== undefined && index === 0 && { raw: line }),
  }))
}

/** The stored count lags behind while a task runs. */
async function lastId(tasks: TaskContext, id: string, stored: number): Promise<number> {
  await using reader = await LogReader.open(taskFolder(tasks, id))
  let last = stored
  for await (const record of reader.records()) last = record.id + record.events.length - 1
  return last
}
