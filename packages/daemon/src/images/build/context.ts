// The files of a build, as they come from a client: a tar, checked entry by entry, with a digest that is the same for the same content.
import { createHash } from 'node:crypto'
import { createWriteStream } from 'node:fs'
import { mkdir, mkdtemp, rm, stat } from 'node:fs/promises'
import { join } from 'node:path'
import { Readable } from 'node:stream'
import { pipeline } from 'node:stream/promises'
import { LIMITS, SandglassError } from '@sandglass/contract'
import { extract, pack } from 'tar-stream'
import { uncompressed } from '../archive/spool.ts'
import type { ImageWorld } from '../context.ts'
import { openRoom, type Room } from '../store/size-limit.ts'
import { type Admitted, ContextNames } from './context-names.ts'

/** A Dockerfile and an overlay under these names are for the build alone, and no files of it. */
export const RESERVED = ['.sandglass.dockerfile', '.sandglass.overlay']
const IGNORE = '.dockerignore'
/** What a tar ends with. */
const END_BYTES = 1024

export interface BuildContext extends AsyncDisposable {
  /** File with the tar. Its end is not part of `bytes`, so that more can follow. */
  readonly path: string
  readonly bytes: number
  /** Of names, modes and contents. */
  readonly digest: string
  /** The files that were asked for, and .dockerignore; undefined where there is none. */
  text(name: string): string | undefined
}

/** `wanted` are names of files whose text is kept. On failure nothing is left. */
export async function receiveContext(
  world: ImageWorld,
  image: string,
  body: Readable,
  wanted: readonly string[],
  signal: AbortSignal,
): Promise<BuildContext> {
  await mkdir(world.images.importDir, { recursive: true, mode: 0o700 })
  const folder = await mkdtemp(join(world.images.importDir, 'context-'))
  const remove = () => rm(folder, { recursive: true, force: true })
  try {
    const path = join(folder, 'context.tar')
    const limit = {
      image,
      what: 'bytes of files for its build',
      max: world.config.images.max_context_bytes,
      next: 'name what is not needed in .dockerignore, or allow more with images.max_context_bytes',
    }
    const room = await openRoom(world, folder, limit)
    const kept = new Map<string, string>()
    const tar = await uncompressed(body, limit)
    const digest = await copy(image, tar, path, new Set([...wanted, IGNORE]), kept, room, signal)
    const { size } = await stat(path)
    return { path, bytes: size - END_BYTES, digest, text: name => kept.get(name), [Symbol.asyncDispose]: remove }
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
  room: Room,
  signal: AbortSignal,
): Promise<string> {
  const archive = extract()
  const copied = pack()
  const names = new ContextNames(image)
  const lines = new Map<string, string>()
  const read = async () => {
    for await (const entry of archive) {
      const header = names.admit(entry.header)
      const content = header?.type === 'file' ? contentOf(entry as AsyncIterable<Buffer>, header, wanted, kept, room) : null
      if (header === null || RESERVED.includes(header.name)) {
        for await (const _ of content?.pieces ?? entry);
        continue
      }
      if (content) await pipeline(Readable.from(content.pieces), copied.entry(header))
      else {
        copied.entry(header)
        entry.resume()
      }
      lines.set(header.name, `${header.type} ${header.mode} ${header.linkname ?? ''} ${content?.digest() ?? ''}`)
    }
    copied.finalize()
  }
  // What fails ends the others.
  const fail = (error: Error) => {
    copied.destroy(error)
    archive.destroy(error)
    throw error
  }
  const reading = read().catch(fail)
  const coming = pipeline(tar, archive, { signal }).catch(fail)
  const written = pipeline(copied, createWriteStream(path, { flags: 'wx', mode: 0o600 }), { signal })
  // The first is the one that knows why.
  for (const end of await Promise.allSettled([reading, coming, written])) if (end.status === 'rejected') throw end.reason
  const hash = createHash('sha256')
  for (const name of [...lines.keys()].sort()) hash.update(`${JSON.stringify(name)} ${lines.get(name)}\n`)
  return hash.digest('hex')
}

function contentOf(
  entry: AsyncIterable<Buffer>,
  { name, size = 0 }: Admitted,
  wanted: ReadonlySet<string>,
  kept: Map<string, string>,
  room: Room,
): { pieces: AsyncIterable<Buffer>; digest: () => string } {
  const isKept = wanted.has(name)
  if (isKept && size > LIMITS.dockerfile_bytes.max)
    throw new SandglassError('BODY_TOO_LARGE', { limit: LIMITS.dockerfile_bytes.max })
  const hash = createHash('sha256')
  const text: Buffer[] = []
  const pieces = async function* () {
    for await (const piece of entry) {
      await room.take(piece.length)
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
        { issue: `the body is no tar: ${message}`, next: 'send the files as a tar' },
        { cause: error },
      )
    : error
}
