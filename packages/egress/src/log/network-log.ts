// The network log of a session: network-sandbox.log (text) and network-sandbox.jsonl (JSON lines) in one folder. When one of them has reached its size, both
// are renamed to `.1` and begun again, so that a session that floods its log cannot fill the disk.
import { type FileHandle, open, rename } from 'node:fs/promises'
import { join } from 'node:path'
import { type EntryFields, entryText, newEntry, oneLine } from './entry.ts'

const TEXT = 'network-sandbox.log'
const JSON_LINES = 'network-sandbox.jsonl'
const OLDER_JSON_LINES = `${JSON_LINES}.1`
/** Read at the end of an existing file to find the last id. */
const TAIL_BYTES = 64 * 1024
/** Lines that wait to be written. A disk that takes none makes the log lossy, which the next line says, and never fills the memory. */
const MAX_WAITING = 10_000

export interface NetworkLog {
  add(fields: EntryFields): void
  /** Resolves when everything so far is in the files. Later entries are dropped. */
  close(): Promise<void>
}

type Files = { text: FileHandle; json: FileHandle; bytes: number }

export function openNetworkLog(folder: string, maxBytes: () => number, onError: (error: unknown) => void): NetworkLog {
  let waiting: { fields: EntryFields; at: number }[] = []
  let dropped = 0
  let writing: Promise<void> | null = null
  let isClosed = false
  let files: Files | null = null
  let lastId = 0

  async function flush(): Promise<void> {
    while (waiting.length > 0) {
      const batch = waiting
      waiting = []
      if (dropped > 0) {
        batch.push({ fields: { type: 'error', reason: `${dropped} entries could not be written` }, at: Date.now() })
        dropped = 0
      }
      try {
        await write(batch)
      } catch (error) {
        dropped += batch.length
        await closeFiles()
        onError(error)
        return
      }
    }
  }

  async function write(batch: readonly { fields: EntryFields; at: number }[]): Promise<void> {
    files ??= await begin()
    if (files.bytes > maxBytes()) files = await rotate()
    const entries = batch.map(({ fields, at }) => {
      lastId += 1
      return newEntry(lastId, at, inOneLine(fields))
    })
    const json = entries.map(entry => `${JSON.stringify(entry)}\n`).join('')
    const text = entries.map(entry => `${entryText(entry)}\n`).join('')
    await files.json.appendFile(json)
    await files.text.appendFile(text)
    files.bytes += json.length
  }

  async function begin(): Promise<Files> {
    const opened = await openFiles()
    const last = await lastIdOf(opened.json)
    lastId = Math.max(lastId, last > 0 ? last : await lastIdInOlder(join(folder, OLDER_JSON_LINES)))
    return opened
  }

  async function openFiles(): Promise<Files> {
    const text = await open(join(folder, TEXT), 'a+', 0o600)
    try {
      const json = await open(join(folder, JSON_LINES), 'a+', 0o600)
      return { text, json, bytes: (await json.stat()).size }
    } catch (error) {
      await text.close()
      throw error
    }
  }

  async function rotate(): Promise<Files> {
    await closeFiles()
    for (const name of [TEXT, JSON_LINES]) await rename(join(folder, name), join(folder, `${name}.1`))
    return openFiles()
  }

  async function closeFiles(): Promise<void> {
    const open = files
    files = null
    await Promise.all([open?.text.close(), open?.json.close()])
  }

  function start(): void {
    writing ??= flush().finally(() => {
      writing = null
      if (waiting.length > 0) start()
    })
  }

  return {
    add(fields) {
      if (isClosed) return
      if (waiting.length >= MAX_WAITING) dropped += 1
      else waiting.push({ fields, at: Date.now() })
      start()
    },
    async close() {
      isClosed = true
      while (writing !== null) await writing
      await closeFiles()
    },
  }
}

/** SECURITY: names and messages come from sandboxes; a line break in one of them would forge another entry. */
const inOneLine = (fields: EntryFields): EntryFields => ({
  ...fields,
  ...Object.fromEntries(
    (['method', 'url', 'host', 'reason'] as const).map(key => [key, fields[key] ? oneLine(fields[key]) : (fields[key] ?? null)]),
  ),
})

/** A process that was started right after a rotation finds nothing in the current file. */
async function lastIdInOlder(path: string): Promise<number> {
  try {
    await using older = await open(path)
    return await lastIdOf(older)
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return 0
    throw error
  }
}

async function lastIdOf(file: FileHandle): Promise<number> {
  const { size } = await file.stat()
  const length = Math.min(size, TAIL_BYTES)
  const { buffer, bytesRead } = await file.read(Buffer.alloc(length), 0, length, size - length)
  const lines = buffer.subarray(0, bytesRead).toString('utf8').trimEnd().split('\n')
  for (const line of lines.toReversed()) {
    const id = /^\{.*"id":(\d+)/.exec(line)?.[1]
    if (id !== undefined) return Number(id)
  }
  return 0
}
