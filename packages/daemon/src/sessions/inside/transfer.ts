// Files and tar archives of any size, streamed in and out of a session.
import type { Readable } from 'node:stream'
import { ArchiveReply, type RouteQuery, type RouteReply, SandglassError } from '@sandglass/contract'
import { z } from 'zod'
import type { SessionContext } from '../context.ts'
import { requestStream, type SessionStream } from './request.ts'
import { parsed } from './runner-shapes.ts'

export type Download = {
  size: number
  length: number
  offset: number
  modifiedAt: Date
  chunks: AsyncGenerator<Buffer, void, undefined>
  /** Returns a chunk to the pool of buffers once it was sent. */
  recycle: (chunk: Uint8Array) => void
  /** Ends a download that is not read to its end. */
  close: () => void
}

/** `length` where it is known. */
export type Upload = { chunks: Readable; length: number | undefined }

export async function putFile(
  context: SessionContext,
  ref: string,
  options: RouteQuery<'putFile'>,
  source: Upload,
  signal: AbortSignal,
): Promise<RouteReply<'putFile'>> {
  const opened = await requestStream(context, ref, 'file.put', { make_parents: true, ...options }, signal)
  const done = await upload(opened, source)
  return { ok: true, ...parsed(opened.live.record.id, z.object({ path: z.string(), size: z.int() }), done) }
}

export async function putArchive(
  context: SessionContext,
  ref: string,
  query: RouteQuery<'putArchive'>,
  source: Upload,
  signal: AbortSignal,
): Promise<RouteReply<'putArchive'>> {
  const opened = await requestStream(context, ref, 'archive.put', { ...query, path: query.path ?? '.' }, signal)
  const done = await upload(opened, source)
  const { entries, size } = parsed(opened.live.record.id, z.object({ entries: ArchiveReply.shape.entries, size: z.int() }), done)
  return { ok: true, entries, bytes: size }
}

/** A source of known length is sent as one body, without the overhead of chunks. */
async function upload({ stream, close }: SessionStream, { chunks, length }: Upload): Promise<unknown> {
  try {
    return await stream.upload(chunks, length)
  } finally {
    close()
  }
}

const Got = z.object({ size: z.int().min(0), modified_at_ms: z.int().min(0), bytes: z.int().min(0) })

export async function getFile(
  context: SessionContext,
  ref: string,
  query: RouteQuery<'getFile'>,
  range: { offset: number; length?: number },
  signal: AbortSignal,
): Promise<Download> {
  const opened = await requestStream(context, ref, 'file.get', { ...query, ...range }, signal)
  const { size, modified_at_ms, bytes } = parsed(opened.live.record.id, Got, opened.stream.reply)
  return {
    size,
    length: bytes,
    offset: range.offset,
    modifiedAt: new Date(modified_at_ms),
    chunks: replyChunks(opened),
    recycle: chunk => opened.stream.recycle(chunk),
    close: opened.close,
  }
}

async function* replyChunks({ stream, close }: SessionStream): AsyncGenerator<Buffer, void, undefined> {
  try {
    yield* stream.replyBody()
  } finally {
    close()
  }
}

export async function getArchive(
  context: SessionContext,
  ref: string,
  query: RouteQuery<'getArchive'>,
  signal: AbortSignal,
): Promise<{ chunks: AsyncGenerator<Buffer, void, undefined>; close: () => void }> {
  const opened = await requestStream(context, ref, 'archive.get', { ...query }, signal)
  return { chunks: archiveChunks(opened), close: opened.close }
}

/** A tar that ends without `done` is truncated: the error breaks the reply off, so that the client does not take it for complete. */
async function* archiveChunks({ stream, live, close }: SessionStream): AsyncGenerator<Buffer, void, undefined> {
  try {
    for await (const { message, body } of stream) {
      if (message.type === 'done') return
      yield* body
    }
    throw new SandglassError('RUNNER_LOST', { id: live.record.id })
  } finally {
    close()
  }
}
