// Takes an archive of images apart: every file of it goes to a folder of the store's, with its digest. What the files mean is told afterwards,
// because docker save writes its table of contents last.
import { createHash } from 'node:crypto'
import { mkdir, mkdtemp, open, readFile, rm } from 'node:fs/promises'
import { join, posix } from 'node:path'
import { PassThrough, type Readable } from 'node:stream'
import { pipeline } from 'node:stream/promises'
import { createGunzip } from 'node:zlib'
import { LIMITS, SandglassError } from '@sandglass/contract'
import type { Header } from 'tar-stream'
import { compressionOf } from '../../layers/compression.ts'
import { readEntries } from '../../layers/tar-entries.ts'
import { ZstdFrames } from '../../layers/zstd-frames.ts'
import type { ImageWorld } from '../context.ts'
import { invalid } from '../manifest.ts'
import { openRoom, type Room, type RoomLimit } from '../store/size-limit.ts'

/** More files than any archive of images has. */
const MAX_FILES = 10_000
const MiB = 1024 * 1024
const ROOM_FOR_HEADERS = 64 * MiB

export interface SpooledFile {
  readonly path: string
  readonly digest: string
  readonly size: number
}

export class Spool {
  readonly folder: string
  readonly #files = new Map<string, SpooledFile>()
  /** docker save of some versions has a layer once, and links to it. */
  readonly #links = new Map<string, string>()

  constructor(folder: string) {
    this.folder = folder
  }

  add(name: string, file: SpooledFile): void {
    this.#files.set(name, file)
  }

  link(name: string, target: string): void {
    this.#links.set(name, target)
  }

  file(name: string): SpooledFile | undefined {
    let at = name
    for (let hops = 0; hops < 8; hops++) {
      const found = this.#files.get(at)
      const target = this.#links.get(at)
      if (found || target === undefined) return found
      at = target
    }
    return undefined
  }

  /** Undefined when there is none. */
  async text(image: string, name: string): Promise<Buffer | undefined> {
    const file = this.file(name)
    if (!file) return undefined
    if (file.size > LIMITS.image_manifest_bytes.max)
      throw new SandglassError('IMAGE_TOO_LARGE', { image, what: `bytes in ${name}`, max: LIMITS.image_manifest_bytes.max })
    return await readFile(file.path)
  }

  async remove(): Promise<void> {
    await rm(this.folder, { recursive: true, force: true })
  }
}

/** `image` is what the archive is called in messages. On failure nothing is left. */
export async function spoolArchive(world: ImageWorld, image: string, body: Readable, signal: AbortSignal): Promise<Spool> {
  await mkdir(world.images.importDir, { recursive: true, mode: 0o700 })
  const spool = new Spool(await mkdtemp(join(world.images.importDir, 'archive-')))
  try {
    const limit = { image, what: 'bytes', max: world.config.images.max_bytes }
    const room = await openRoom(world, spool.folder, limit)
    const tar = await uncompressed(body, limit)
    await readEntries(tar, { image, issue: 'it is no archive of images' }, signal, unpackTo(spool, room, image))
    return spool
  } catch (error) {
    await spool.remove()
    signal.throwIfAborted()
    throw failure(image, error)
  }
}

function unpackTo(spool: Spool, room: Room, image: string) {
  // An archive may have one name several times, of which the last counts, and the others are on the disk until the end.
  let count = 0
  return async ({ name, type, linkname }: Header, content: AsyncIterable<Buffer>): Promise<void> => {
    const at = posix.normalize(name).replace(/^\/+/, '')
    if (++count > MAX_FILES) throw invalid(image, `its archive has more than ${MAX_FILES} files`)
    if (type === 'symlink' || type === 'link') {
      const base = type === 'symlink' ? posix.dirname(at) : '.'
      spool.link(at, posix.normalize(posix.join(base, linkname ?? '')))
    }
    if (type === 'file' || type === 'contiguous-file')
      spool.add(at, await write(join(spool.folder, String(count)), content, room))
  }
}

async function write(path: string, content: AsyncIterable<Buffer>, room: Room): Promise<SpooledFile> {
  const hash = createHash('sha256')
  let size = 0
  await using file = await open(path, 'wx', 0o600)
  for await (const piece of content) {
    await room.take(piece.length)
    hash.update(piece)
    await file.write(piece)
    size += piece.length
  }
  return { path, digest: `sha256:${hash.digest('hex')}`, size }
}

/** The tar inside, however it is compressed. Beside its files it has headers and padding, and a little data can become any number of zeros. */
export async function uncompressed(body: Readable, limit: RoomLimit): Promise<Readable> {
  const iterator = body[Symbol.asyncIterator]() as AsyncIterator<Buffer>
  const first = await iterator.next()
  const start = first.done ? Buffer.alloc(0) : first.value
  const whole = new PassThrough({ highWaterMark: MiB })
  const source = async function* () {
    yield start
    for (;;) {
      const { done, value } = await iterator.next()
      if (done) return
      yield value
    }
  }
  const bounded = async function* (pieces: AsyncIterable<Buffer>) {
    let left = 2 * limit.max + ROOM_FOR_HEADERS
    for await (const piece of pieces) {
      left -= piece.length
      if (left < 0) throw new SandglassError('IMAGE_TOO_LARGE', limit)
      yield piece
    }
  }
  const kind = compressionOf(start)
  const finish = (error: unknown) => void (error && whole.destroy(error as Error))
  if (kind === 'none') pipeline(source, whole).catch(finish)
  else pipeline(source, kind === 'gzip' ? createGunzip() : new ZstdFrames(MiB), bounded, whole).catch(finish)
  return whole
}

function failure(image: string, error: unknown): unknown {
  const { code } = error as NodeJS.ErrnoException
  if (code === 'ENOSPC' || code === 'EDQUOT')
    return new SandglassError('IMAGE_STORE_FULL', { image, why: 'the disk of the data folder is full' }, { cause: error })
  return error
}
