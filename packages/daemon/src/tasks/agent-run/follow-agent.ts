// Reads the output of a running agent, stores its events, and acknowledges what is stored. The runner keeps every byte until then, so a daemon
// that dies loses nothing: the next one reads on where the log ends.
import { constants } from 'node:fs'
import { type FileHandle, open } from 'node:fs/promises'
import { join } from 'node:path'
import { setTimeout as delay } from 'node:timers/promises'
import { LIMITS, SandglassError } from '@sandglass/contract'
import { z } from 'zod'
import type { AgentParser, ParsedEvent } from '../../agents/adapters/adapter.ts'
import { acknowledgedOutput, acknowledgeOutput, attachProcess } from '../../sessions/inside/processes.ts'
import { parsed } from '../../sessions/inside/runner-shapes.ts'
import { findSession } from '../../sessions/live.ts'
import { announceChange, type TaskContext, taskFolder } from '../context.ts'
import { LogReader, type LogRecord, type LogWriter } from '../event-log.ts'
import { OutputLines } from './output-lines.ts'

export type FollowedAgent = {
  readonly taskId: string
  readonly sessionId: string
  readonly pid: number
  /** Which run of the agent this is, from 1. */
  readonly tryNumber: number
  readonly parser: AgentParser
  readonly log: LogWriter
  /** Called with each event, after it was stored. */
  readonly onEvent: (event: ParsedEvent) => void
}

export type AgentEnd = { exitCode: number | null; timedOut: boolean; stderr: string; isLost: boolean }

/** A line whose end has not come is stored in pieces of this size, because the runner keeps 1 MiB at most. */
const PART_BYTES = 256 * 1024
/** Characters of lines and events that are stored together. */
const BATCH_CHARACTERS = 1024 * 1024
const RETRY_MS = 200
/** The agent counts as lost when its runner has refused connections for this long. */
const LOST_AFTER_MS = 30_000

const Output = z.object({ type: z.enum(['stdout', 'stderr']), offset: z.int().min(0) })
const Exit = z.object({ type: z.literal('exit'), exit_code: z.int(), timed_out: z.boolean().default(false) })

/** Resolves when the agent has ended and everything it printed is stored. Throws when the daemon stops. */
export async function followAgent(tasks: TaskContext, agent: FollowedAgent): Promise<AgentEnd> {
  const state = await Following.open(tasks, agent)
  try {
    let failingSince: number | null = null
    for (;;) {
      tasks.sessions.closing.throwIfAborted()
      try {
        const end = await state.attach()
        return { ...end, stderr: await state.stderrTail(), isLost: false }
      } catch (error) {
        tasks.sessions.closing.throwIfAborted()
        if (error instanceof SandglassError && error.is('PROCESS_NOT_FOUND')) break
        if (!(await mayComeBack(tasks, agent.sessionId))) break
        failingSince = state.hasProgressed() ? null : (failingSince ?? performance.now())
        if (failingSince !== null && performance.now() - failingSince > LOST_AFTER_MS) break
        tasks.sessions.log.debug({ err: error, taskId: agent.taskId }, 'connection to the agent lost; connecting again')
        await delay(RETRY_MS)
      }
    }
    return { exitCode: null, timedOut: false, stderr: await state.stderrTail(), isLost: true }
  } finally {
    await state[Symbol.asyncDispose]()
  }
}

/** True while the runner of the session can be reached again: a paused session is resumed later. */
async function mayComeBack({ sessions }: TaskContext, id: string): Promise<boolean> {
  const status = (await findSession(sessions, id))?.status
  return status === 'running' || status === 'paused'
}

class Following implements AsyncDisposable {
  readonly #tasks: TaskContext
  readonly #agent: FollowedAgent
  readonly #lines: OutputLines
  readonly #stderr: FileHandle
  #stderrBytes: number
  #progress = false

  private constructor(tasks: TaskContext, agent: FollowedAgent, lines: OutputLines, stderr: FileHandle, stderrBytes: number) {
    this.#tasks = tasks
    this.#agent = agent
    this.#lines = lines
    this.#stderr = stderr
    this.#stderrBytes = stderrBytes
  }

  /** Brings the parser to where the log ends. */
  static async open(tasks: TaskContext, agent: FollowedAgent): Promise<Following> {
    const folder = taskFolder(tasks, agent.taskId)
    const flags = constants.O_RDWR | constants.O_CREAT | constants.O_NOFOLLOW
    const stderr = await open(join(folder, stderrName(agent.tryNumber)), flags, 0o600)
    const { size } = await stderr.stat()
    return new Following(tasks, agent, await replay(folder, agent), stderr, size)
  }

  /** True if something was stored since the last call. */
  hasProgressed(): boolean {
    const progress = this.#progress
    this.#progress = false
    return progress
  }

  async attach(): Promise<{ exitCode: number; timedOut: boolean }> {
    const { sessions } = this.#tasks
    const { sessionId, pid } = this.#agent
    const from = { stdout_from: this.#lines.position, stderr_from: this.#stderrBytes }
    const opened = await attachProcess(sessions, sessionId, pid, from, sessions.closing)
    const { stream, close } = opened
    try {
      this.#lines.skipTo(acknowledgedOutput(opened).stdout)
      for await (const { message, body } of stream) {
        if (message.type === 'exit') {
          const { exit_code, timed_out } = parsed(sessionId, Exit, message)
          const last = this.#lines.finish()
          if (last !== null) await this.#store([last])
          await acknowledgeOutput(opened, { stdout: this.#stored, stderr: this.#stderrBytes })
          return { exitCode: exit_code, timedOut: timed_out }
        }
        const { type, offset } = parsed(sessionId, Output, message)
        await (type === 'stdout' ? this.#takeStdout(body, offset) : this.#takeStderr(body, offset))
        this.#progress = true
        await acknowledgeOutput(opened, { stdout: this.#stored, stderr: this.#stderrBytes })
      }
      throw new SandglassError('RUNNER_LOST', { id: sessionId })
    } finally {
      close()
    }
  }

  /** Bytes of stdout that are stored, and need not be sent again. */
  get #stored(): number {
    return this.#lines.position - this.#lines.unstoredBytes
  }

  async #takeStdout(body: AsyncIterable<Buffer>, offset: number): Promise<void> {
    this.#lines.skipTo(offset)
    let skip = this.#lines.position - offset
    for await (const chunk of body) {
      const fresh = skip > 0 ? chunk.subarray(skip) : chunk
      skip -= chunk.length - fresh.length
      // The runner may use the buffer again, and the beginning of a line is kept.
      await this.#store(this.#lines.push(Buffer.from(fresh)))
    }
  }

  async #store(lines: ReturnType<OutputLines['push']>): Promise<void> {
    const { log, parser, tryNumber } = this.#agent
    const at = this.#tasks.sessions.now()
    let records: Omit<LogRecord, 'id'>[] = []
    let characters = 0
    for (const { text, isTruncated, end } of lines) {
      if (text.trim() === '') continue
      const events = parser.line(text, isTruncated)
      if (!log.hasRoom({ isConclusive: events.some(isConclusive) })) {
        this.#announce(events) // turns and costs count although nobody can read them any more
        continue
      }
      records.push({ at, try: tryNumber, offset: end, events, raw: text, ...(isTruncated && { truncated: true as const }) })
      // SECURITY: a short line may repeat a long answer, so that many lines do not fit into memory at once.
      characters += text.length + events.reduce((sum, event) => sum + (event.text?.length ?? 0), 0)
      if (characters < BATCH_CHARACTERS) continue
      await this.#append(records)
      records = []
      characters = 0
    }
    if (this.#lines.unstoredBytes >= PART_BYTES) {
      const part = this.#lines.takePart().toString('base64')
      if (log.hasRoom({ isConclusive: false }))
        records.push({ at, try: tryNumber, offset: this.#lines.position, events: [], part })
    }
    if (records.length > 0) await this.#append(records)
  }

  async #append(records: readonly Omit<LogRecord, 'id'>[]): Promise<void> {
    await this.#agent.log.append(records)
    announceChange(this.#tasks, this.#agent.taskId)
    for (const { events } of records) this.#announce(events)
  }

  #announce(events: LogRecord['events']): void {
    for (const event of events) if (event.type !== 'status') this.#agent.onEvent(event)
  }

  /** The beginning is kept; what comes after the limit is dropped. */
  async #takeStderr(body: AsyncIterable<Buffer>, offset: number): Promise<void> {
    let position = offset
    for await (const chunk of body) {
      const from = Math.max(0, this.#stderrBytes - position)
      const fresh = chunk.subarray(from)
      const room = LIMITS.task_stderr_bytes.max - this.#stderrBytes
      if (room > 0 && fresh.length > 0) await this.#stderr.write(fresh.subarray(0, room), 0, undefined, this.#stderrBytes)
      position += chunk.length
      this.#stderrBytes = Math.max(this.#stderrBytes, position)
    }
  }

  async stderrTail(): Promise<string> {
    const { size } = await this.#stderr.stat()
    const length = Math.min(size, 64 * 1024)
    const { buffer, bytesRead } = await this.#stderr.read(Buffer.alloc(length), 0, length, size - length)
    return buffer.subarray(0, bytesRead).toString('utf8')
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#stderr.close()
  }
}

export const stderrName = (tryNumber: number): string => `stderr-${tryNumber}.log`

/** Events without which a task has no result. */
const isConclusive = ({ type }: ParsedEvent) => type === 'result' || type === 'error' || type === 'init'

/** Gives the parser the lines that are stored already. */
async function replay(folder: string, { tryNumber, parser }: FollowedAgent): Promise<OutputLines> {
  await using reader = await LogReader.open(folder)
  let position = 0
  let parts: Buffer[] = []
  for await (const record of reader.records()) {
    if (record.try !== tryNumber) continue
    position = Math.max(position, record.offset)
    if (record.part !== undefined) parts.push(Buffer.from(record.part, 'base64'))
    if (record.raw === undefined) continue
    parser.line(record.raw, record.truncated ?? false)
    parts = []
  }
  return new OutputLines(position, parts)
}
