// The event log of a task: a file of JSON lines that only grows. A record holds one line of the agent: its events, the line itself, and
// the position in the agent's output after it. The log therefore says how much of the output is stored, and the next daemon continues there.
import { constants } from 'node:fs'
import { type FileHandle, mkdir, open } from 'node:fs/promises'
import { join } from 'node:path'
import { LIMITS } from '@sandglass/contract'
import type { ParsedEvent } from '../agents/adapters/adapter.ts'
import { nullIfMissing } from '../lib/missing-file.ts'

export type LogRecord = {
  /** Id of the first event; of a record without events, the id that the next event gets. */
  id: number
  at: number
  /** Which run of the agent the record belongs to, from 1. */
  try: number
  /** Bytes of the agent's stdout that are stored with this record and those before it, in this try. */
  offset: number
  events: readonly (ParsedEvent | StatusEvent)[]
  /** The agent's line. */
  raw?: string
  /** A piece of a line whose end has not come yet, in base64. */
  part?: string
  /** The line was longer than what is kept of it. */
  truncated?: true
}

/** An event of Sandglass itself. An agent cannot cause one by what it prints. */
export type StatusEvent = { type: 'status'; status: string; text?: string }

/** Where a log ends: what an append continues. */
export type LogEnd = { nextId: number; try: number; offset: number }

const NAME = 'events.jsonl'
const CHUNK_BYTES = 64 * 1024
/** Room for the records that end a task, in a log that is full. */
const END_BYTES = 64 * 1024 * 1024
const NEWLINE = 0x0a
const EMPTY: LogEnd = { nextId: 1, try: 0, offset: 0 }

/** Appends to a log. One writer at a time. */
export class LogWriter implements AsyncDisposable {
  readonly #file: FileHandle
  readonly #maxBytes: number
  #bytes: number
  #end: LogEnd

  private constructor(file: FileHandle, maxBytes: number, bytes: number, end: LogEnd) {
    this.#file = file
    this.#maxBytes = maxBytes
    this.#bytes = bytes
    this.#end = end
  }

  /** A record that a crash has cut off is removed. */
  static async open(folder: string, maxBytes: number = LIMITS.task_log_bytes.max): Promise<LogWriter> {
    await mkdir(folder, { recursive: true, mode: 0o700 })
    const file = await open(join(folder, NAME), constants.O_RDWR | constants.O_CREAT | constants.O_NOFOLLOW, 0o600)
    let end = EMPTY
    let bytes = 0
    for await (const { record, length } of recordsOf(file)) {
      bytes += length
      end = { nextId: record.id + record.events.length, try: record.try, offset: record.offset }
    }
    await file.truncate(bytes)
    return new LogWriter(file, maxBytes, bytes, end)
  }

  get end(): LogEnd {
    return this.#end
  }

  /** A log that is full takes only records that end a task. SECURITY: they are bounded, too: an agent may print any number of them. */
  hasRoom({ isConclusive }: { isConclusive: boolean }): boolean {
    return this.#bytes < this.#maxBytes + (isConclusive ? END_BYTES : 0)
  }

  /** Resolves when the records are in the file. Ids are given here. */
  async append(records: readonly Omit<LogRecord, 'id'>[]): Promise<void> {
    let end = this.#end
    const lines = records.map(record => {
      const line = `${JSON.stringify({ id: end.nextId, ...record })}\n`
      end = { nextId: end.nextId + record.events.length, try: record.try, offset: record.offset }
      return line
    })
    const data = Buffer.from(lines.join(''))
    for (let written = 0; written < data.length; ) {
      const { bytesWritten } = await this.#file.write(data, written, data.length - written, this.#bytes + written)
      written += bytesWritten
    }
    this.#bytes += data.length
    this.#end = end
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#file.close()
  }
}

/** Reads a log from its start, and goes on at each call where the last one ended. */
export class LogReader implements AsyncDisposable {
  readonly #file: FileHandle | null
  #position = 0

  private constructor(file: FileHandle | null) {
    this.#file = file
  }

  static async open(folder: string): Promise<LogReader> {
    return new LogReader(await open(join(folder, NAME), constants.O_RDONLY | constants.O_NOFOLLOW).catch(nullIfMissing))
  }

  /** Whole records since the last call. */
  async *records(): AsyncGenerator<LogRecord, void, undefined> {
    if (this.#file === null) return
    for await (const { record, length } of recordsOf(this.#file, this.#position)) {
      this.#position += length
      yield record
    }
  }

  get isOpen(): boolean {
    return this.#file !== null
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#file?.close()
  }
}

/** Records with their lengths in bytes. Ends before a record that is not whole. */
async function* recordsOf(file: FileHandle, from = 0): AsyncGenerator<{ record: LogRecord; length: number }, void, undefined> {
  // One buffer for all reads: memory outside the heap of the collector is freed late.
  const chunk = Buffer.allocUnsafe(CHUNK_BYTES)
  let pieces: Buffer[] = []
  for (let position = from; ; ) {
    const { bytesRead } = await file.read(chunk, 0, CHUNK_BYTES, position)
    if (bytesRead === 0) return
    position += bytesRead
    let rest = chunk.subarray(0, bytesRead)
    for (let end = rest.indexOf(NEWLINE); end !== -1; end = rest.indexOf(NEWLINE)) {
      const line = pieces.length === 0 ? rest.subarray(0, end) : Buffer.concat([...pieces, rest.subarray(0, end)])
      pieces = []
      rest = rest.subarray(end + 1)
      yield { record: JSON.parse(line.toString('utf8')) as LogRecord, length: line.length + 1 }
    }
    if (rest.length > 0) pieces.push(Buffer.from(rest))
  }
}
