// Receives a build context: a tar from the client, checked entry by entry, with a digest of its content.
import { createHash } from 'node:crypto'
import { createWriteStream } from 'node:fs'
import { mkdir, mkdtemp, rm, stat } from 'node:fs/promises'
import { join } from 'node:path'
import { Readable } from 'node:stream'
import { pipeline } from 'node:stream/promises'
import { LIMITS, SandglassError } from '@sandglass/contract'
import { extract, pack } from 'tar-stream'
import { uncompressed } from '../archive/spool.ts'
import type { ImageContext } from '../context.ts'
import { openSizeLimit, type SizeLimit } from '../store/size-limit.ts'
import { type CheckedHeader, ContextEntries } from './context-entries.ts'

/** Files with these names are the Dockerfile and the overlay of the command line. They are not part of the build context. */
export const RESERVED = ['.sandglass.dockerfile', '.sandglass.overlay']
const IGNORE = '.dockerignore'
/** Length of the end marker of a tar. */
const END_BYTES = 1024

export interface BuildContext extends AsyncDisposable {
  /** File with the tar. `bytes` is its length without the end marker, so that more entries can be appended. */
  readonly path: string
  readonly bytes: number
  /** Covers names, modes and contents. */
  readonly digest: string
  /** By name, without a slash at either end. */
  readonly entries: ReadonlyMap<string, ContextEntry>
  /** Text of .dockerignore or of a file in `wanted`; undefined if it does not exist. */
  text(name: string): string | undefined
}

export interface ContextEntry {
  readonly type: CheckedHeader['type']
  readonly mode: number
  /** Empty for files and folders. */
  readonly linkname: string
  /** Of the content; empty for anything but a file. */
  readonly digest: string
}

/** `wanted` are the names of files whose text is kept. On failure no file is left. */
export async function receiveContext(
  context: ImageContext,
  image: string,
  body: Readable,
  wanted: readonly string[],
  signal: AbortSignal,
): Promise<BuildContext> {
  await mkdir(context.images.importDir, { recursive: true, mode: 0o700 })
  const folder = await mkdtemp(join(context.images.importDir, 'context-'))
  const remove = () => rm(folder, { recursive: true, force: true })
  try {
    const path = join(folder, 'context.tar')
    const limit = {
      image,
      what: 'bytes in its build context',
      max: context.config.images.max_context_bytes,
      next: 'exclude files in .dockerignore, or raise images.max_context_bytes',
    }
    const sizeLimit = await openSizeLimit(context, folder, limit)
    const kept = new Map<string, string>()
    const tar = await uncompressed(body, limit)
    const entries = await copy(image, tar, path, new Set([...wanted, IGNORE]), kept, sizeLimit, signal)
    const { size } = await stat(path)
    const digest = entriesDigest(entries)
    return { path, bytes: size - END_BYTES, digest, entries, text: name => kept.get(name), [Symbol.asyncDispose]: remove }
  } catch (error) {
    await remove()
    signal.throwIfAborted()
    throw failure(error)
  }
}

async function copy(
  image: string,
  tar: Readable,
  path: string,
  wanted: ReadonlySet<string>,
  kept: Map<string, string>,
  sizeLimit: SizeLimit,
  signal: AbortSignal,
): Promise<Map<string, ContextEntry>> {
  const archive = extract()
  const copied = pack()
  const entries = new ContextEntries(image)
  const found = new Map<string, ContextEntry>()
  const read = async () => {
    for await (const entry of archive) {
      const header = entries.check(entry.header)
      const content = header?.type === 'file' ? contentOf(entry as AsyncIterable<Buffer>, header, wanted, kept, sizeLimit) : null
      if (header === null || RESERVED.includes(header.name)) {
        for await (const _ of content?.pieces ?? entry);
        continue
      }
      if (content) await pipeline(Readable.from(content.pieces), copied.entry(header))
      else {
        copied.entry(header)
        entry.resume()
      }
      const { type, mode, linkname = '' } = header
      found.set(header.name, { type, mode, linkname, digest: content?.digest() ?? '' })
    }
    copied.finalize()
  }
  // The first failure ends the other two.
  const fail = (error: Error) => {
    copied.destroy(error)
    archive.destroy(error)
    throw error
  }
  const reading = read().catch(fail)
  const received = pipeline(tar, archive, { signal }).catch(fail)
  const written = pipeline(copied, createWriteStream(path, { flags: 'wx', mode: 0o600 }), { signal })
  // In this order, because the first has the cause.
  for (const end of await Promise.allSettled([reading, received, written])) if (end.status === 'rejected') throw end.reason
  return found
}

function entriesDigest(entries: ReadonlyMap<string, ContextEntry>): string {
  const hash = createHash('sha256')
  for (const [name, entry] of [...entries].sort(([a], [b]) => (a < b ? -1 : 1))) hash.update(entryLine(name, entry))
  return hash.digest('hex')
}

/** An entry as digests have it. */
export const entryLine = (name: string, { type, mode, linkname, digest }: ContextEntry): string =>
  `${JSON.stringify(name)} ${type} ${mode} ${linkname} ${digest}\n`

function contentOf(
  entry: AsyncIterable<Buffer>,
  { name, size = 0 }: CheckedHeader,
  wanted: ReadonlySet<string>,
  kept: Map<string, string>,
  sizeLimit: SizeLimit,
): { pieces: AsyncIterable<Buffer>; digest: () => string } {
  const isKept = wanted.has(name)
  if (isKept && size > LIMITS.dockerfile_bytes.max)
    throw new SandglassError('BODY_TOO_LARGE', { limit: LIMITS.dockerfile_bytes.max })
  const hash = createHash('sha256')
  const text: Buffer[] = []
  const pieces = async function* () {
    for await (const piece of entry) {
      await sizeLimit.add(piece.length)
      hash.update(piece)
      if (isKept) text.push(piece)
      yield piece
    }
    if (isKept) kept.set(name, Buffer.concat(text).toString('utf8'))
  }
  return { pieces: pieces(), digest: () => hash.digest('hex') }
}

function failure(error: unknown): unknown {
  if (error instanceof SandglassError) return error
  const { code, message } = error as NodeJS.ErrnoException
  const isBroken = code === undefined || /^(Z_|ZSTD_|ERR_STREAM)/.test(code)
  return isBroken
    ? new SandglassError(
        'INVALID_REQUEST',
        { issue: `the body is not a tar: ${message}`, next: 'send the files as a tar' },
        { cause: error },
      )
    : error
}
