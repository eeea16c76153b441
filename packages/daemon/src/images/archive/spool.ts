// Writes every file of an uploaded archive to a temporary folder and computes its digest. The files are interpreted afterwards, because docker
// save writes its table of contents last.
import { createHash } from 'node:crypto'
import { mkdir, mkdtemp, open, readFile, rm } from 'node:fs/promises'
import { join, posix } from 'node:path'
import { PassThrough, type Readable } from 'node:stream'
import { pipeline } from 'node:stream/promises'
import { createGunzip } from 'node:zlib'
import { LIMITS, SandglassError } from '@sandglass/contract'
import type { Header } from 'tar-stream'
import { compressionOf } from '../../layers/layer-tar.ts'
import { readEntries } from '../../layers/tar-entries.ts'
import { ZstdFrames } from '../../layers/zstd-frames.ts'
import type { ImageContext } from '../context.ts'
import { invalid } from '../manifest.ts'
import { type Limit, openSizeLimit, type SizeLimit } from '../store/size-limit.ts'

/** More files than any real image archive has. */
const MAX_FILES = 10_000
const MiB = 1024 * 1024
const HEADER_ALLOWANCE = 64 * MiB

export interface SpooledFile {
  readonly path: string
  readonly digest: string
  readonly size: number
}

export class Spool {
  readonly folder: string
  /** Name of the image or archive in error messages. */
  readonly image: string
  readonly #files = new Map<string, SpooledFile>()
  /** Some versions of docker save write a shared layer once, and links to it. */
  readonly #links = new Map<string, string>()

  constructor(folder: string, image: string) {
    this.folder = folder
    this.image = image
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

  /** The content of a small file; undefined if there is none. */
  async text(name: string): Promise<Buffer | undefined> {
    const file = this.file(name)
    if (!file) return undefined
    if (file.size > LIMITS.image_manifest_bytes.max)
      throw new SandglassError('IMAGE_TOO_LARGE', {
        image: this.image,
        what: `bytes in ${name}`,
        max: LIMITS.image_manifest_bytes.max,
      })
    return await readFile(file.path)
  }

  async remove(): Promise<void> {
    await rm(this.folder, { recursive: true, force: true })
  }
}

/** On failure no file is left. */
export async function spoolArchive(context: ImageContext, image: string, body: Readable, signal: AbortSignal): Promise<Spool> {
  await mkdir(context.images.importDir, { recursive: true, mode: 0o700 })
  const spool = new Spool(await mkdtemp(join(context.images.importDir, 'archive-')), image)
  try {
    const limit = { image, what: 'bytes', max: context.config.images.max_bytes }
    const sizeLimit = await openSizeLimit(context, spool.folder, limit)
    const tar = await uncompressed(body, limit)
    await readEntries(tar, { image, issue: 'it is not an image archive' }, signal, writeTo(spool, sizeLimit))
    return spool
  } catch (error) {
    await spool.remove()
    signal.throwIfAborted()
    throw failure(image, error)
  }
}

function writeTo(spool: Spool, sizeLimit: SizeLimit) {
  // Numbered files: an archive may repeat a name. The last entry counts, and the others stay on disk until the end.
  let count = 0
  return async ({ name, type, linkname }: Header, content: AsyncIterable<Buffer>): Promise<void> => {
    const at = posix.normalize(name).replace(/^\/+/, '')
    if (++count > MAX_FILES) throw invalid(spool.image, `its archive has more than ${MAX_FILES} files`)
    if (type === 'symlink' || type === 'link') {
      const base = type === 'symlink' ? posix.dirname(at) : '.'
      spool.link(at, posix.normalize(posix.join(base, linkname ?? '')))
    }
    if (type === 'file' || type === 'contiguous-file')
      spool.add(at, await write(join(spool.folder, String(count)), content, sizeLimit))
  }
}

async function write(path: string, content: AsyncIterable<Buffer>, sizeLimit: SizeLimit): Promise<SpooledFile> {
  const hash = createHash('sha256')
  let size = 0
  await using file = await open(path, 'wx', 0o600)
  for await (const piece of content) {
    await sizeLimit.add(piece.length)
    hash.update(piece)
    await file.write(piece)
    size += piece.length
  }
  return { path, digest: `sha256:${hash.digest('hex')}`, size }
}

/** Decompresses a tar. SECURITY: the output is bounded, because a little data can decompress to any number of zeros. */
export async function uncompressed(body: Readable, limit: Limit): Promise<Readable> {
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
    let left = 2 * limit.max + HEADER_ALLOWANCE
    for await (const piece of pieces) {
      left -= piece.length
      if (left < 0) throw new SandglassError('IMAGE_TOO_LARGE', limit)
      yield piece
    }
  }
  const kind = compressionOf(start)
  const fail = (error: unknown) => void (error && whole.destroy(error as Error))
  if (kind === 'none') pipeline(source, whole).catch(fail)
  else pipeline(source, kind === 'gzip' ? createGunzip() : new ZstdFrames(MiB), bounded, whole).catch(fail)
  return whole
}

function failure(image: string, error: unknown): unknown {
  const { code } = error as NodeJS.ErrnoException
  if (code === 'ENOSPC' || code === 'EDQUOT')
    return new SandglassError('IMAGE_STORE_FULL', { image, why: 'the disk of the data folder is full' }, { cause: error })
  return error
}
