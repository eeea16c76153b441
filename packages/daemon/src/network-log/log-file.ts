// The files of a network log, as the daemon reads them.
//
// SECURITY: the egress process owns the folder. A compromised one could put a link, a pipe or a device in the place of a log; the daemon, which may be
// root, reads plain files of that folder alone, and no line that is too long.
import { constants } from 'node:fs'
import { type FileHandle, open } from 'node:fs/promises'
import { join } from 'node:path'
import { isMissing } from '../lib/missing-file.ts'

export const TEXT = 'network-sandbox.log'
export const JSON_LINES = 'network-sandbox.jsonl'
/** The file that was current before the last rotation. */
export const rotated = (name: string): string => `${name}.1`

const CHUNK_BYTES = 64 * 1024
const MAX_LINE_BYTES = 256 * 1024
const NEWLINE = 0x0a
const FLAGS = constants.O_RDONLY | constants.O_NOFOLLOW | constants.O_NONBLOCK

export class LogFile implements AsyncDisposable {
  /** The same for the same file, also after it was renamed. */
  readonly inode: number
  readonly #handle: FileHandle
  /** The beginning of a line whose end was not written yet. */
  #partial = Buffer.alloc(0)
  #isTooLong = false

  private constructor(handle: FileHandle, inode: number) {
    this.#handle = handle
    this.inode = inode
  }

  /** Null if there is no such file, or something else in its place. */
  static async open(folder: string, name: string): Promise<LogFile | null> {
    const handle = await open(join(folder, name), FLAGS).catch(nullIfNoFile)
    if (handle === null) return null
    const stat = await handle.stat()
    if (stat.isFile() && stat.nlink <= 1) return new LogFile(handle, stat.ino)
    await handle.close()
    return null
  }

  /** Bytes from where the last call ended up to the end of the file. */
  async *chunks(): AsyncGenerator<Buffer, void, undefined> {
    for (;;) {
      const { bytesRead, buffer } = await this.#handle.read(Buffer.allocUnsafe(CHUNK_BYTES), 0, CHUNK_BYTES, null)
      if (bytesRead === 0) return
      yield buffer.subarray(0, bytesRead)
    }
  }

  /** The whole lines since the last call. Lines that are too long are left out. */
  async *lines(): AsyncGenerator<string, void, undefined> {
    for await (const chunk of this.chunks()) {
      let rest = chunk
      for (let end = rest.indexOf(NEWLINE); end !== -1; end = rest.indexOf(NEWLINE)) {
        const line = this.#partial.length === 0 ? rest.subarray(0, end) : Buffer.concat([this.#partial, rest.subarray(0, end)])
        if (!this.#isTooLong && line.length > 0 && line.length <= MAX_LINE_BYTES) yield line.toString('utf8')
        this.#partial = Buffer.alloc(0)
        this.#isTooLong = false
        rest = rest.subarray(end + 1)
      }
      this.#isTooLong ||= this.#partial.length + rest.length > MAX_LINE_BYTES
      this.#partial = this.#isTooLong ? Buffer.alloc(0) : Buffer.concat([this.#partial, rest])
    }
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#handle.close()
  }
}

/** The rotated file and the current one, oldest first: two different files, also when a rotation happens meanwhile. */
export async function openBoth(folder: string, name: string): Promise<LogFile[]> {
  for (;;) {
    const current = await LogFile.open(folder, name)
    const older = await LogFile.open(folder, rotated(name))
    if (current === null || older === null || current.inode !== older.inode) return [older, current].filter(file => file !== null)
    await current[Symbol.asyncDispose]()
    await older[Symbol.asyncDispose]()
  }
}

function nullIfNoFile(error: unknown): null {
  const { code } = error as NodeJS.ErrnoException
  // ELOOP: a link. ENXIO: a socket or a pipe without a reader.
  if (isMissing(error) || code === 'ELOOP' || code === 'ENXIO') return null
  throw error
}
