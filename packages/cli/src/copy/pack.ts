// Makes a tar of a folder of this machine.
import { constants, type Stats } from 'node:fs'
import { type FileHandle, lstat, open, readdir, readlink } from 'node:fs/promises'
import { join } from 'node:path'
import { Readable } from 'node:stream'
import { buffer } from 'node:stream/consumers'
import { pipeline } from 'node:stream/promises'
import { SandglassError } from '@sandglass/contract/tables'
import type { Header, Pack } from 'tar-stream'
import { DeepPaths } from './deep-paths.ts'

export type PackOptions = {
  /** Says whether a path below the folder is packed. The contents of a folder that is not packed are considered only with `entersAll`. */
  isPacked?: (path: string) => boolean
  entersAll?: boolean
  /** Gets the path of an unreadable entry and the reason; the entry is skipped. Without it, an unreadable entry is an error. */
  onUnreadable?: (what: string) => void
  /** Files to add that are not in the folder. */
  more?: readonly { name: string; content: Buffer }[]
}

/** A tar of a folder of this machine, made as it is read. Sockets, pipes and devices are skipped; `onSkip` gets their kind and path. */
export async function* pack(
  folder: string,
  onSkip: (what: string) => void,
  options: PackOptions = {},
): AsyncGenerator<Uint8Array, void, undefined> {
  await using paths = new DeepPaths(folder)
  const tar = new TarWriter((await import('tar-stream')).pack())
  const filled = fill({ tar, folder, paths, onSkip, ...options }).catch((error: Error) => tar.fail(error))
  try {
    yield* tar.pieces()
  } finally {
    tar.fail()
    await filled
  }
}

type Packing = PackOptions & { tar: TarWriter; folder: string; paths: DeepPaths; onSkip: (what: string) => void }

async function fill(packing: Packing): Promise<void> {
  await packFolders(packing)
  for (const { name, content } of packing.more ?? [])
    await packing.tar.entry({ ...entryOf(name, { mode: 0o644, mtimeMs: 0 }), type: 'file' }, content)
  packing.tar.end()
}

/** One folder after the other; the folders in it come after its other entries, so that only one is open at any depth. */
async function packFolders(packing: Packing): Promise<void> {
  const { isPacked = () => true, entersAll = false, tar } = packing
  const pending = ['']
  for (let prefix = pending.pop(); prefix !== undefined; prefix = pending.pop()) {
    const folder = prefix.slice(0, -1)
    const found = await attempt(packing, folder, async path => ({ stats: await lstat(path), names: await readdir(path) }))
    if (found === undefined) continue
    if (folder !== '' && isPacked(folder)) await tar.entry({ ...entryOf(`${folder}/`, found.stats), type: 'directory' })
    const folders: string[] = []
    for (const name of found.names.map(name => prefix + name)) {
      const isIn = isPacked(name)
      if (!isIn && !entersAll) continue
      const stats = await attempt(packing, name, path => lstat(path))
      if (stats?.isDirectory()) folders.push(`${name}/`)
      else if (stats && isIn) await packEntry(packing, name, stats)
    }
    pending.push(...folders.reverse())
  }
}

/** Packs an entry that is not a folder. */
async function packEntry(packing: Packing, name: string, stats: Stats): Promise<void> {
  if (stats.isSymbolicLink()) {
    const linkname = await attempt(packing, name, path => readlink(path))
    if (linkname !== undefined) await packing.tar.entry({ ...entryOf(name, stats), type: 'symlink', linkname })
    return
  }
  if (!stats.isFile()) {
    packing.onSkip(`${kindOf(stats)} ${join(packing.folder, name)}`)
    return
  }
  // O_NONBLOCK: a pipe may have replaced the file meanwhile.
  const flags = constants.O_RDONLY | constants.O_NOFOLLOW | constants.O_NONBLOCK
  const file = await attempt(packing, name, path => open(path, flags))
  if (file === undefined) return
  try {
    const { size } = await file.stat()
    await packing.tar.file(entryOf(name, stats), size, contents(file, join(packing.folder, name), size))
  } finally {
    await file.close()
  }
}

/** Undefined for an entry that has gone, and for an unreadable one if onUnreadable takes it. */
async function attempt<T>(packing: Packing, name: string, read: (path: string) => Promise<T>): Promise<T | undefined> {
  try {
    return await read(await packing.paths.to(name))
  } catch (error) {
    const { code, message } = error as NodeJS.ErrnoException
    if (packing.onUnreadable === undefined || name === '') throw error
    if (code !== 'ENOENT') packing.onUnreadable(`${join(packing.folder, name)}: ${REASONS[code ?? ''] ?? message}`)
  }
}

const REASONS: Readonly<Record<string, string>> = { EACCES: 'permission denied', EPERM: 'permission denied' }

type EntryHeader = Partial<Header> & Pick<Header, 'name'>

/** The last second that tar-stream can write into a header; a later one goes into a pax record. */
const MAX_HEADER_TIME = 2 ** 31 - 1

function entryOf(name: string, { mode, mtimeMs }: Pick<Stats, 'mode' | 'mtimeMs'>): EntryHeader {
  const seconds = Math.max(0, Math.floor(mtimeMs / 1000))
  const mtime = new Date(Math.min(seconds, MAX_HEADER_TIME) * 1000)
  // tar-stream replaces the mode 0, so the bit of a regular file, which it does not write, is set.
  const header = { name, mode: constants.S_IFREG | (mode & 0o777), mtime }
  return seconds > MAX_HEADER_TIME ? { ...header, pax: { mtime: String(seconds) } } : header
}

const kindOf = (stats: Stats) => (stats.isSocket() ? 'socket' : stats.isFIFO() ? 'pipe' : 'device')

/** Exactly the bytes that the header promised: a file that grows is cut, and one that shrinks is an error. */
async function* contents(file: FileHandle, path: string, size: number): AsyncGenerator<Buffer, void, undefined> {
  for (let at = 0; at < size; ) {
    const piece = Buffer.allocUnsafe(Math.min(MAX_PIECE, size - at))
    const { bytesRead } = await file.read(piece, 0, piece.length, at)
    if (bytesRead === 0)
      throw new SandglassError('SOURCE_FAILED', { path, why: `it became shorter meanwhile, ${at} bytes of ${size}` })
    at += bytesRead
    yield piece.subarray(0, bytesRead)
  }
}

const MAX_PIECE = 256 * 1024
/** Files up to this size are read whole, which takes less time than a stream. */
const MAX_WHOLE = 64 * 1024
/** Whole entries that may wait in tar-stream. */
const MAX_WAITING = 64
/** Bytes that may wait for the reader. More than a whole entry, so that this bounds only a series of entries without a body. */
const MAX_UNREAD = 128 * 1024

/** tar-stream's writer with backpressure for every entry: its own applies to a body that is streamed, and not at all to headers. */
class TarWriter {
  readonly #archive: Pack
  /** Entries that tar-stream has not written yet. */
  #waiting = 0
  /** Bytes that tar-stream has written and the reader has not taken. */
  #unread = 0
  #onProgress: () => void = () => undefined

  constructor(archive: Pack) {
    this.#archive = archive
    const push = archive.push.bind(archive)
    archive.push = (piece: Uint8Array | null) => {
      this.#unread += piece?.length ?? 0
      return push(piece)
    }
  }

  async *pieces(): AsyncGenerator<Uint8Array, void, undefined> {
    for await (const piece of this.#archive as AsyncIterable<Uint8Array>) {
      this.#unread -= piece.length
      this.#onProgress()
      yield piece
    }
  }

  async entry(header: EntryHeader, body: Uint8Array = new Uint8Array()): Promise<void> {
    while (this.#waiting >= MAX_WAITING || this.#unread >= MAX_UNREAD)
      await new Promise<void>(resolve => {
        this.#onProgress = resolve
      })
    this.#waiting++
    this.#archive.entry(header, body, () => {
      this.#waiting--
      this.#onProgress()
    })
  }

  async file(header: EntryHeader, size: number, body: AsyncIterable<Buffer>): Promise<void> {
    if (size <= MAX_WHOLE) return this.entry({ ...header, type: 'file' }, await buffer(body))
    const sink = this.#archive.entry({ ...header, type: 'file', size })
    await pipeline(Readable.from(body), sink)
  }

  end(): void {
    this.#archive.finalize()
  }

  /** Ends the reader with an error, or both sides when the reader has stopped. */
  fail(error?: Error): void {
    this.#archive.destroy(error)
    this.#waiting = 0
    this.#unread = 0
    this.#onProgress()
  }
}
