// The entries of a network log, read once or followed.
import { setTimeout as delay } from 'node:timers/promises'
import { NetworkEntry } from '@sandglass/contract'
import { JSON_LINES, LogFile, openBoth } from './log-file.ts'

/** How soon a follower sees an entry. The egress process announces none. */
const POLL_MS = 200

/** The entries after the id `after`, oldest first. */
export async function* readEntries(folder: string, after = 0): AsyncGenerator<NetworkEntry, void, undefined> {
  await using reader = new EntryReader(folder, after)
  yield* reader.next()
}

/** Goes on with entries as they are written, until `hasEnded` is true and all have been read. */
export async function* followEntries(
  folder: string,
  after: number,
  hasEnded: () => Promise<boolean>,
  signal: AbortSignal,
): AsyncGenerator<NetworkEntry, void, undefined> {
  await using reader = new EntryReader(folder, after)
  while (!signal.aborted) {
    const isLast = await hasEnded()
    yield* reader.next()
    if (isLast) return
    await delay(POLL_MS, undefined, { signal, ref: false }).catch(() => undefined) // the loop ends
  }
}

/** Reads on from where it stopped, through rotations. */
class EntryReader implements AsyncDisposable {
  readonly #folder: string
  #last: number
  #current: LogFile | null = null

  constructor(folder: string, after: number) {
    this.#folder = folder
    this.#last = after
  }

  async *next(): AsyncGenerator<NetworkEntry, void, undefined> {
    if (this.#current !== null && (await this.#isCurrent())) return yield* this.#entries(this.#current)
    // The rest of the file that was current, and a file between it and the current one, are found again by their ids.
    const files = await openBoth(this.#folder, JSON_LINES)
    const before = this.#current
    this.#current = files.pop() ?? null
    try {
      if (before !== null) yield* this.#entries(before)
      for (const file of files) yield* this.#entries(file)
    } finally {
      for (const file of [before, ...files]) await file?.[Symbol.asyncDispose]()
    }
    if (this.#current !== null) yield* this.#entries(this.#current)
  }

  async #isCurrent(): Promise<boolean> {
    const found = await LogFile.open(this.#folder, JSON_LINES)
    const isSame = found?.inode === this.#current?.inode
    await found?.[Symbol.asyncDispose]()
    return isSame
  }

  async *#entries(file: LogFile): AsyncGenerator<NetworkEntry, void, undefined> {
    for await (const line of file.lines()) {
      const entry = parse(line)
      if (entry === null || entry.id <= this.#last) continue
      this.#last = entry.id
      yield entry
    }
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#current?.[Symbol.asyncDispose]()
  }
}

/** Null for a line that is damaged, as after a crash. */
function parse(line: string): NetworkEntry | null {
  try {
    return NetworkEntry.safeParse(JSON.parse(line)).data ?? null
  } catch {
    return null // not JSON
  }
}
