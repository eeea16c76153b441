// context.json: a conversation with its replies. It is made from the tasks of the context and their events, and written when a reply is complete.
import { mkdir } from 'node:fs/promises'
import { join } from 'node:path'
import type { ContextReply } from '@sandglass/contract'
import { isShallow } from '../../agents/adapters/untrusted.ts'
import { writeText } from '../../lib/json-file.ts'
import { findContext } from '../../store/contexts.ts'
import type { TaskRow } from '../../store/tables.ts'
import { tasksOfContext } from '../../store/tasks.ts'
import { contextFolder, type TaskContext, taskFolder } from '../context.ts'
import { LogReader } from '../event-log.ts'

/** Characters of the lines of one reply, and of all replies; the task itself has all. Of many long replies the last ones keep their events. */
const MAX_REPLY_CHARACTERS = 4 * 1024 * 1024
const MAX_FILE_CHARACTERS = 32 * 1024 * 1024
const CONTEXT_FILE = 'context.json'

export async function writeContextFile(tasks: TaskContext, folder: string): Promise<void> {
  await mkdir(contextFolder(tasks, folder), { recursive: true, mode: 0o700 })
  await writeText(join(contextFolder(tasks, folder), CONTEXT_FILE), await contextText(tasks, folder))
}

/**
 * The replies so far, as JSON of the shape ContextFile. That of a running task is as far as its events go, and is the same reply until the task
 * ends. SECURITY: lines of the agent stay text: as values they may take twenty times their size in memory.
 */
export async function contextText(tasks: TaskContext, folder: string): Promise<string> {
  const { store } = tasks.sessions
  const row = await findContext(store, folder)
  const replies: string[] = []
  let left = MAX_FILE_CHARACTERS
  for (const task of (await tasksOfContext(store, folder)).toReversed()) {
    if (task.started_at === null) continue
    const found = await rawEvents(tasks, task, Math.min(left, MAX_REPLY_CHARACTERS))
    left -= found.characters
    replies.push(withList(replyOf(tasks, task, found), 'events', found.events))
  }
  return withList({ execution_context_id: row?.context_id ?? '', model: row?.model ?? null }, 'replies', replies.reverse())
}

/** JSON of an object with one more field: a list whose items are JSON already. */
const withList = (object: object, name: string, items: readonly string[]): string =>
  `${JSON.stringify(object).slice(0, -1)},${JSON.stringify(name)}:[${items.join(',')}]}`

type RawEvents = {
  /** Each is JSON. */
  events: string[]
  characters: number
  isTruncated: boolean
  initSessionId: string | null
}

function replyOf(tasks: TaskContext, task: TaskRow, { isTruncated, initSessionId }: RawEvents): Omit<ContextReply, 'events'> {
  const endedAt = task.ended_at ?? tasks.sessions.now()
  return {
    task_id: task.id,
    agent: task.agent,
    // Without a result event the id of the init event is the only one.
    session_id: task.agent_session_id ?? initSessionId,
    timestamp: new Date(endedAt).toISOString(),
    duration_ms: task.started_at === null ? 0 : endedAt - task.started_at,
    total_cost_usd: task.total_cost_usd ?? 0,
    num_turns: task.num_turns,
    is_error: task.outcome !== 'SUCCESS',
    outcome: task.outcome,
    usage: JSON.parse(task.task_usage) as ContextReply['usage'],
    request_text: task.prompt,
    response_text: task.response_text ?? '',
    events_truncated: isTruncated,
  }
}

async function rawEvents(tasks: TaskContext, { id, tries }: TaskRow, maxCharacters: number): Promise<RawEvents> {
  await using reader = await LogReader.open(taskFolder(tasks, id))
  const found: RawEvents = { events: [], characters: 0, isTruncated: false, initSessionId: null }
  for await (const record of reader.records()) {
    if (record.try !== tries || record.raw === undefined) continue
    for (const event of record.events)
      if (event.type === 'init') found.initSessionId = event.agent_session_id ?? found.initSessionId
    const event = jsonOf(record.raw)
    if (found.characters + event.length > maxCharacters) return { ...found, isTruncated: true }
    found.characters += event.length
    found.events.push(event)
  }
  return found
}

/** The line if it is JSON that can be read anywhere; else the line as a JSON string. */
function jsonOf(line: string): string {
  try {
    if (isShallow(JSON.parse(line))) return line.trim()
  } catch {
    // the agent printed something else than JSON
  }
  return JSON.stringify(line)
}
