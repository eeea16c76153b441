// Handlers of files and archives in a session.
import { SandglassError } from '@sandglass/contract'
import type { FastifyRequest } from 'fastify'
import {
  listFiles,
  makeDirectory,
  moveFile,
  readFile,
  removeFile,
  searchFiles,
  statFile,
  watchFiles,
  writeFile,
} from '../../sessions/inside/files.ts'
import { getArchive, getFile, putArchive, putFile, type Upload } from '../../sessions/inside/transfer.ts'
import type { Api, BytesReply, Call, Handlers, SseEvent } from '../api.ts'

export const fileHandlers = ({ context }: Api) =>
  ({
    fsWrite: ({ params, body }) => writeFile(context, params.id, body),
    fsRead: ({ params, query }) => readFile(context, params.id, query),
    fsList: ({ params, query, signal }) => listFiles(context, params.id, query, signal),
    fsStat: ({ params, query }) => statFile(context, params.id, query),
    fsMkdir: ({ params, body }) => makeDirectory(context, params.id, body),
    fsMove: ({ params, body }) => moveFile(context, params.id, body),
    fsRemove: ({ params, body }) => removeFile(context, params.id, body),
    fsSearch: ({ params, query, signal }) => searchFiles(context, params.id, query, signal),
    fsWatch: async ({ params, query, signal }) => changeEvents(await watchFiles(context, params.id, query, signal)),
    putFile: ({ params, query, request, signal }) => putFile(context, params.id, query, uploadOf(request), signal),
    getFile: call => download(call, range => getFile(context, call.params.id, call.query, range, call.signal)),
    putArchive: ({ params, query, request, signal }) => putArchive(context, params.id, query, uploadOf(request), signal),
    getArchive: async ({ params, query, signal }) => ({
      headers: { 'content-type': 'application/x-tar' },
      ...(await getArchive(context, params.id, query, signal)),
    }),
  }) satisfies Partial<Handlers>

function uploadOf({ raw, headers }: FastifyRequest): Upload {
  const length = headers['content-length']
  return { chunks: raw, length: length === undefined ? undefined : Number(length) }
}

async function* changeEvents(changes: AsyncIterable<unknown>): AsyncGenerator<SseEvent, void, undefined> {
  for await (const data of changes) yield { event: 'change', data }
}

type Open = (range: { offset: number; length?: number }) => ReturnType<typeof getFile>

async function download({ request }: Call<'getFile'>, open: Open): Promise<BytesReply> {
  const range = parseRange(request.headers.range)
  const { size, length, offset, modifiedAt, chunks, recycle, close } = await openRange(range, open)
  const isPart = range !== null
  if (isPart && length === 0) {
    close()
    throw new SandglassError('RANGE_NOT_SATISFIABLE', { size })
  }
  return {
    status: isPart ? 206 : 200,
    headers: {
      'content-type': 'application/octet-stream',
      'content-length': length,
      'accept-ranges': 'bytes',
      'last-modified': modifiedAt.toUTCString(),
      ...(isPart ? { 'content-range': `bytes ${offset}-${offset + length - 1}/${size}` } : {}),
    },
    chunks,
    recycle,
    close,
  }
}

/** A range of the last N bytes needs the size first: opening the file with length 0 returns it. */
async function openRange(range: Range | null, open: Open): ReturnType<Open> {
  if (range === null) return open({ offset: 0 })
  if (!('last' in range)) return open(range)
  const empty = await open({ offset: 0, length: 0 })
  empty.close()
  return open({ offset: Math.max(0, empty.size - range.last) })
}

/** The Range header asks for one range of bytes. */
type Range = { offset: number; length?: number } | { last: number }

/** Null for anything but one range: HTTP allows to ignore the header, and the whole file is sent. */
export function parseRange(header: string | undefined): Range | null {
  const [, first, last] = /^bytes=(\d{0,15})-(\d{0,15})$/.exec(header?.replaceAll(' ', '') ?? '') ?? []
  if (first === undefined || last === undefined || (first === '' && last === '')) return null
  if (first === '') return { last: Number(last) }
  if (last === '') return { offset: Number(first) }
  return Number(last) < Number(first) ? null : { offset: Number(first), length: Number(last) - Number(first) + 1 }
}
