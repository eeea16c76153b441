// Routes of files and archives.
import * as files from '../schemas/files.ts'
import { Ok } from '../schemas/primitives.ts'
import { Bytes, live, type RouteSchemas, sessionId } from './schemas.ts'

const path = [...live, 'FILE_NOT_FOUND', 'PATH_OUTSIDE_WORKSPACE', 'PERMISSION_DENIED', 'NOT_A_DIRECTORY'] as const

export const FILES_ROUTES = {
  fsWrite: {
    summary: 'Write a small file atomically',
    params: sessionId,
    body: files.WriteRequest,
    reply: files.WriteReply,
    errors: [...path, 'IS_A_DIRECTORY', 'DISK_FULL', 'BODY_TOO_LARGE', 'TOO_MANY_WAITING'],
  },
  fsRead: {
    summary: 'Read a small file',
    params: sessionId,
    query: files.ReadQuery,
    reply: files.ReadReply,
    errors: [...path, 'IS_A_DIRECTORY', 'NOT_A_FILE', 'TOO_MANY_WAITING'],
  },
  fsList: { summary: 'List a directory', params: sessionId, query: files.ListQuery, reply: files.ListReply, errors: path },
  fsStat: { summary: 'Describe a file', params: sessionId, query: files.PathQuery, reply: files.FileInfo, errors: path },
  fsMkdir: {
    summary: 'Make a directory',
    params: sessionId,
    body: files.MkdirRequest,
    reply: Ok,
    errors: [...path, 'FILE_EXISTS', 'DISK_FULL'],
  },
  fsMove: { summary: 'Move or rename', params: sessionId, body: files.MoveRequest, reply: Ok, errors: [...path, 'FILE_EXISTS'] },
  fsRemove: {
    summary: 'Remove a file or directory',
    params: sessionId,
    body: files.RemoveRequest,
    reply: Ok,
    errors: [...path, 'NOT_EMPTY'],
  },
  fsSearch: {
    summary: 'Search names and contents',
    params: sessionId,
    query: files.SearchQuery,
    reply: files.SearchReply,
    errors: path,
  },
  fsWatch: {
    summary: 'Watch a directory',
    params: sessionId,
    query: files.WatchQuery,
    reply: files.WatchEvent.describe('events: change'),
    errors: path,
  },
  putFile: {
    summary: 'Write a file of any size atomically',
    params: sessionId,
    query: files.FilesPutQuery,
    rawBody: 'application/octet-stream',
    reply: files.WriteReply,
    errors: [...path, 'IS_A_DIRECTORY', 'DISK_FULL'],
  },
  getFile: {
    summary: 'Read a file of any size; takes a Range header',
    params: sessionId,
    query: files.PathQuery,
    reply: Bytes,
    errors: [...path, 'IS_A_DIRECTORY', 'NOT_A_FILE', 'RANGE_NOT_SATISFIABLE'],
  },
  putArchive: {
    summary: 'Unpack a tar archive into a directory',
    params: sessionId,
    query: files.ArchivePutQuery,
    rawBody: 'application/x-tar',
    reply: files.ArchiveReply,
    errors: [...path, 'ARCHIVE_UNSAFE', 'FILE_EXISTS', 'DISK_FULL'],
  },
  getArchive: {
    summary: 'Pack a file or directory as a tar archive',
    params: sessionId,
    query: files.ArchiveGetQuery,
    reply: Bytes,
    errors: path,
  },
} as const satisfies Record<string, RouteSchemas>
