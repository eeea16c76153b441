// Files of a session. SECURITY: the runner resolves every path inside the sandbox; none of them is opened on the host.
import {
  LIMITS,
  type RouteBody,
  type RouteQuery,
  type RouteReply,
  SandglassError,
  SearchReply,
  WatchEvent,
} from '@sandglass/contract'
import { z } from 'zod'
import type { SessionContext } from '../context.ts'
import { PagedReply, pagesOf } from '../pages.ts'
import { request, requestStream, type SessionStream } from './request.ts'
import { parsed, RunnerEntry } from './runner-shapes.ts'

const WORKSPACE = '.'
const Written = z.object({ path: z.string(), size: z.int() })
const mode = (text: string | undefined) => (text === undefined ? {} : { mode: text })
type User = RouteQuery<'fsStat'>['user']
/** Whose rights the runner acts with; the user of the sandbox where a request names none. */
export const as = (user: User) => (user === undefined ? {} : { user })

export async function writeFile(
  context: SessionContext,
  ref: string,
  { text, content_base64, ...write }: RouteBody<'fsWrite'>,
): Promise<RouteReply<'fsWrite'>> {
  const content = content_base64 === undefined ? Buffer.from(text ?? '') : Buffer.from(content_base64, 'base64')
  if (content.length > LIMITS.fs_write_bytes.max) throw new SandglassError('BODY_TOO_LARGE', { limit: LIMITS.fs_write_bytes.max })
  const fields = {
    path: write.path,
    ...mode(write.mode),
    make_parents: write.make_parents ?? true,
    sync: write.sync ?? false,
    ...as(write.user),
  }
  const { message, live } = await request(context, ref, 'write', fields, content)
  return { ok: true, ...parsed(live.record.id, Written, message) }
}

export async function readFile(
  context: SessionContext,
  ref: string,
  { path, offset = 0, max_bytes = LIMITS.fs_read_bytes.default, user }: RouteQuery<'fsRead'>,
): Promise<RouteReply<'fsRead'>> {
  const { message, body, live } = await request(context, ref, 'read', { path, offset, max_bytes, ...as(user) })
  const { size, truncated } = parsed(live.record.id, z.object({ size: z.int(), truncated: z.boolean().default(false) }), message)
  return { path, content_base64: body.toString('base64'), size, truncated }
}

export async function listFiles(
  context: SessionContext,
  ref: string,
  query: RouteQuery<'fsList'>,
  signal: AbortSignal,
): Promise<PagedReply<RouteReply<'fsList'>>> {
  const fields = {
    path: query.path ?? WORKSPACE,
    recursive: query.recursive ?? false,
    max_entries: query.max_entries ?? LIMITS.dir_entries.default,
    stream: true,
    ...as(query.user),
  }
  const opened = await requestStream(context, ref, 'fs.list', fields, signal)
  return new PagedReply<RouteReply<'fsList'>>(pathOf(opened), pagesOf(opened, RunnerEntry))
}

function pathOf({ stream, live, close }: SessionStream): { path: string } {
  try {
    return parsed(live.record.id, z.object({ path: z.string() }), stream.reply)
  } catch (error) {
    close()
    throw error
  }
}

export async function statFile(
  context: SessionContext,
  ref: string,
  { path, user }: RouteQuery<'fsStat'>,
): Promise<RouteReply<'fsStat'>> {
  const { message, live } = await request(context, ref, 'fs.stat', { path, ...as(user) })
  return parsed(live.record.id, RunnerEntry, message.entry)
}

export async function makeDirectory(
  context: SessionContext,
  ref: string,
  { path, parents, mode: bits, user }: RouteBody<'fsMkdir'>,
): Promise<{ ok: true }> {
  await request(context, ref, 'fs.mkdir', { path, parents: parents ?? false, ...mode(bits), ...as(user) })
  return { ok: true }
}

export async function moveFile(
  context: SessionContext,
  ref: string,
  { from, to, overwrite, user }: RouteBody<'fsMove'>,
): Promise<{ ok: true }> {
  await request(context, ref, 'fs.move', { from, to, overwrite: overwrite ?? false, ...as(user) })
  return { ok: true }
}

export async function removeFile(
  context: SessionContext,
  ref: string,
  { path, recursive, user }: RouteBody<'fsRemove'>,
): Promise<{ ok: true }> {
  await request(context, ref, 'fs.remove', { path, recursive: recursive ?? false, ...as(user) })
  return { ok: true }
}

export async function searchFiles(
  context: SessionContext,
  ref: string,
  query: RouteQuery<'fsSearch'>,
  signal: AbortSignal,
): Promise<PagedReply<RouteReply<'fsSearch'>>> {
  const max_matches = query.max_matches ?? LIMITS.search_matches.default
  const fields = { ...query, path: query.path ?? WORKSPACE, max_matches, stream: true }
  const opened = await requestStream(context, ref, 'fs.search', fields, signal)
  return new PagedReply<RouteReply<'fsSearch'>>({}, pagesOf(opened, SearchReply.shape.items.element))
}

export async function watchFiles(
  context: SessionContext,
  ref: string,
  query: RouteQuery<'fsWatch'>,
  signal: AbortSignal,
): Promise<AsyncGenerator<z.infer<typeof WatchEvent>, void, undefined>> {
  const opened = await requestStream(
    context,
    ref,
    'fs.watch',
    { path: query.path ?? WORKSPACE, recursive: query.recursive ?? false, ...as(query.user) },
    signal,
  )
  return changes(opened)
}

async function* changes({ stream, live, close }: SessionStream): AsyncGenerator<z.infer<typeof WatchEvent>, void, undefined> {
  try {
    for await (const { message } of stream) {
      const { event, ...change } = message
      yield parsed(live.record.id, WatchEvent, { ...change, type: event })
    }
  } finally {
    close()
  }
}
