// The API as data. The server's validation, OpenAPI, the SDK's types and the reference pages come from here.
import { z } from 'zod'
import type { ErrorCode } from './errors.ts'
import * as exec from './exec.ts'
import * as files from './files.ts'
import * as images from './images.ts'
import { PATHS, type RouteName } from './paths.ts'
import { Ok, queryBool, queryInt, SessionRef, ShellName } from './primitives.ts'
import * as secrets from './secrets.ts'
import * as session from './session.ts'

export type RouteSchemas = {
  summary: string
  /** HTTP status of success; 200 when absent. */
  status?: number
  params?: z.ZodType
  query?: z.ZodType
  body?: z.ZodType
  /** Those that the route reads, in small letters. */
  headers?: z.ZodType
  /** The request body is raw bytes of any size. */
  rawBody?: string
  reply: z.ZodType
  /** May be sent again by a client that lost the answer. */
  creates?: boolean
  public?: boolean
  errors: readonly ErrorCode[]
}

const id = z.strictObject({ id: SessionRef })
const idPid = z.strictObject({ id: SessionRef, pid: queryInt(1, 4_194_304) })
const secretName = z.strictObject({ name: secrets.SecretName })
const idShell = z.strictObject({ id: SessionRef, name: ShellName })
const Bytes = z.unknown().describe('raw bytes')
const found = ['SESSION_NOT_FOUND'] as const
const live = ['SESSION_NOT_FOUND', 'WRONG_STATE', 'RUNNER_LOST'] as const
const path = [...live, 'FILE_NOT_FOUND', 'PATH_OUTSIDE_WORKSPACE', 'PERMISSION_DENIED', 'NOT_A_DIRECTORY'] as const
const imageRef = z.strictObject({ ref: images.ImageRef })
const stored = ['IMAGE_INVALID', 'IMAGE_TOO_LARGE', 'IMAGE_DIGEST_MISMATCH', 'IMAGE_STORE_FULL'] as const
const pulled = ['IMAGE_NOT_ALLOWED', 'IMAGE_NOT_FOUND', 'REGISTRY_DENIED', 'REGISTRY_FAILED', ...stored] as const
const started = ['START_FAILED', 'BACKEND_UNAVAILABLE', 'LIMIT_UNENFORCEABLE', 'HOST_FULL', 'UNSUPPORTED'] as const

const SCHEMAS = {
  createSession: {
    summary: 'Create a session',
    status: 201,
    body: session.SessionSpec,
    reply: session.Session,
    creates: true,
    errors: ['NAME_TAKEN', 'IDEMPOTENCY_MISMATCH', ...pulled, ...started],
  },
  listSessions: { summary: 'List sessions', query: session.SessionQuery, reply: session.SessionList, errors: [] },
  listPreparations: {
    summary: 'List what sessions that are being made wait for',
    reply: session.PreparationList,
    errors: [],
  },
  getSession: {
    summary: 'Show a session',
    params: id,
    query: z.strictObject({ reveal_env: queryBool.optional().describe('also the values of the environment variables') }),
    reply: session.Session,
    errors: [...found, 'SECRET_UNREADABLE'],
  },
  deleteSession: {
    summary: 'Terminate a session; purge also removes its row',
    params: id,
    query: z.strictObject({ purge: queryBool.optional() }),
    reply: session.Session,
    errors: found,
  },
  startSession: {
    summary: 'Start a stopped or failed session',
    params: id,
    reply: session.Session,
    errors: [...found, 'WRONG_STATE', ...started],
  },
  stopSession: {
    summary: 'Stop a session and keep its files',
    params: id,
    reply: session.Session,
    errors: [...found, 'WRONG_STATE'],
  },
  pauseSession: {
    summary: 'Freeze every process of a session',
    params: id,
    reply: session.Session,
    errors: [...found, 'WRONG_STATE', 'UNSUPPORTED'],
  },
  resumeSession: {
    summary: 'Thaw a paused session',
    params: id,
    reply: session.Session,
    errors: [...found, 'WRONG_STATE', 'UNSUPPORTED'],
  },
  terminateSession: { summary: 'End a session for good', params: id, reply: session.Session, errors: found },
  renewSession: {
    summary: 'Move expires_at forward',
    params: id,
    body: session.RenewRequest,
    reply: session.Session,
    errors: [...found, 'WRONG_STATE'],
  },
  sessionStats: { summary: 'Resource use of a session', params: id, reply: session.SessionStats, errors: live },
  sessionLogs: { summary: 'Boot log of a session', params: id, reply: Bytes, errors: found },
  exec: {
    summary: 'Run a command line in a shell and answer when it ends',
    params: id,
    body: exec.ExecRequest,
    reply: exec.ExecResult,
    errors: [...live, 'TIMEOUT_TOO_LONG', 'TOO_MANY_WAITING'],
  },
  execStream: {
    summary: 'Run a command line in a shell and stream its output',
    params: id,
    body: exec.ExecRequest,
    reply: z.union([exec.ExecChunk, exec.ExecDone]).describe('events: chunk, then done or error'),
    errors: [...live, 'TIMEOUT_TOO_LONG'],
  },
  createShell: {
    summary: 'Create a named shell',
    status: 201,
    params: id,
    body: exec.ShellSpec,
    reply: exec.Shell,
    creates: true,
    errors: [...live, 'SHELL_EXISTS'],
  },
  listShells: { summary: 'List shells', params: id, reply: exec.ShellList, errors: live },
  deleteShell: { summary: 'End a shell and what runs in it', params: idShell, reply: Ok, errors: [...live, 'SHELL_NOT_FOUND'] },
  attachShell: {
    summary: 'Attach a terminal to a shell, made on first use',
    params: idShell,
    query: exec.ShellAttachQuery,
    reply: Bytes,
    errors: [...live, 'SLOW_READER'],
  },
  startProcess: {
    summary: 'Start a process',
    status: 201,
    params: id,
    body: exec.ProcessSpec,
    reply: exec.Process,
    creates: true,
    errors: [...live, 'FILE_NOT_FOUND', 'PERMISSION_DENIED'],
  },
  listProcesses: { summary: 'List processes started through the API', params: id, reply: exec.ProcessList, errors: live },
  getProcess: { summary: 'Show a process', params: idPid, reply: exec.Process, errors: [...live, 'PROCESS_NOT_FOUND'] },
  attachProcess: {
    summary: 'Attach to a process: recent output, then live, with stdin',
    params: idPid,
    reply: Bytes,
    errors: [...live, 'PROCESS_NOT_FOUND', 'SLOW_READER'],
  },
  processOutput: {
    summary: 'Stream the output of a process',
    params: idPid,
    reply: z
      .object({ data_base64: z.string() })
      .describe('events: stdout, stderr, then exit; the id is a position to resume from'),
    errors: [...live, 'PROCESS_NOT_FOUND', 'SLOW_READER'],
  },
  writeStdin: {
    summary: "Write to a process's stdin",
    params: idPid,
    body: exec.StdinRequest,
    reply: Ok,
    errors: [...live, 'PROCESS_NOT_FOUND', 'TOO_MANY_WAITING'],
  },
  signalProcess: {
    summary: 'Signal a process',
    params: idPid,
    body: exec.SignalRequest,
    reply: Ok,
    errors: [...live, 'PROCESS_NOT_FOUND'],
  },
  fsWrite: {
    summary: 'Write a small file atomically',
    params: id,
    body: files.WriteRequest,
    reply: files.WriteReply,
    errors: [...path, 'IS_A_DIRECTORY', 'DISK_FULL', 'BODY_TOO_LARGE'],
  },
  fsRead: {
    summary: 'Read a small file',
    params: id,
    query: files.ReadQuery,
    reply: files.ReadReply,
    errors: [...path, 'IS_A_DIRECTORY', 'NOT_A_FILE'],
  },
  fsList: { summary: 'List a directory', params: id, query: files.ListQuery, reply: files.ListReply, errors: path },
  fsStat: { summary: 'Describe a file', params: id, query: files.PathQuery, reply: files.FileInfo, errors: path },
  fsMkdir: {
    summary: 'Make a directory',
    params: id,
    body: files.MkdirRequest,
    reply: Ok,
    errors: [...path, 'FILE_EXISTS', 'DISK_FULL'],
  },
  fsMove: { summary: 'Move or rename', params: id, body: files.MoveRequest, reply: Ok, errors: [...path, 'FILE_EXISTS'] },
  fsRemove: {
    summary: 'Remove a file or directory',
    params: id,
    body: files.RemoveRequest,
    reply: Ok,
    errors: [...path, 'NOT_EMPTY'],
  },
  fsSearch: {
    summary: 'Search names and contents',
    params: id,
    query: files.SearchQuery,
    reply: files.SearchReply,
    errors: path,
  },
  fsWatch: {
    summary: 'Watch a directory',
    params: id,
    query: files.WatchQuery,
    reply: files.WatchEvent.describe('events: change'),
    errors: path,
  },
  putFile: {
    summary: 'Write a file of any size atomically',
    params: id,
    query: files.FilesPutQuery,
    rawBody: 'application/octet-stream',
    reply: files.WriteReply,
    errors: [...path, 'IS_A_DIRECTORY', 'DISK_FULL'],
  },
  getFile: {
    summary: 'Read a file of any size; takes a Range header',
    params: id,
    query: files.PathQuery,
    reply: Bytes,
    errors: [...path, 'IS_A_DIRECTORY', 'NOT_A_FILE', 'RANGE_NOT_SATISFIABLE'],
  },
  putArchive: {
    summary: 'Unpack a tar archive into a directory',
    params: id,
    query: files.ArchivePutQuery,
    rawBody: 'application/x-tar',
    reply: files.ArchiveReply,
    errors: [...path, 'ARCHIVE_UNSAFE', 'DISK_FULL'],
  },
  getArchive: {
    summary: 'Pack a file or directory as a tar archive',
    params: id,
    query: files.PathQuery,
    reply: Bytes,
    errors: path,
  },
  listPorts: { summary: 'List listening TCP ports', params: id, reply: session.PortList, errors: live },
  dialPort: {
    summary: 'Connect to a TCP port inside; messages are raw bytes',
    params: z.strictObject({ id: SessionRef, port: queryInt(1, 65_535) }),
    reply: Bytes,
    errors: [...live, 'PORT_CLOSED'],
  },
  listImages: { summary: 'List the images in the store', query: images.ImageQuery, reply: images.ImageList, errors: [] },
  getImage: { summary: 'Show an image', params: imageRef, reply: images.Image, errors: ['IMAGE_NOT_FOUND'] },
  deleteImage: {
    summary: 'Remove a name of an image, and with its last name the image; by id, the image with all its names',
    params: imageRef,
    reply: images.ImageRemoved,
    errors: ['IMAGE_NOT_FOUND', 'IMAGE_IN_USE'],
  },
  pullImage: {
    summary: 'Bring an image from its registry into the store',
    body: images.PullRequest,
    reply: z
      .union([images.ImageProgress, images.Image])
      .describe('events: progress, one for each step of a layer; then done or error'),
    errors: pulled,
  },
  importImage: {
    summary: 'Bring the images of a docker save archive or of an OCI layout (tar, also with gzip) into the store',
    query: images.ImportQuery,
    rawBody: 'application/x-tar',
    reply: z
      .union([images.ImageProgress, images.ImportDone])
      .describe('events: progress, once the body has come; then done or error'),
    errors: ['IMAGE_NOT_ALLOWED', ...stored],
  },
  buildImage: {
    summary: 'Build an image from a Dockerfile. The body is a tar (also with gzip) with the Dockerfile and its files',
    query: images.BuildQuery,
    headers: images.BuildHeaders,
    rawBody: 'application/x-tar',
    reply: z
      .union([images.BuildStep, images.BuildOutput, images.ImageProgress, images.BuildDone])
      .describe('events: step, output, progress, once the body has come; then done or error'),
    errors: [
      'IMAGE_BUILD_FAILED',
      'ARCHIVE_UNSAFE',
      'FILE_NOT_FOUND',
      'BODY_TOO_LARGE',
      'BACKEND_UNAVAILABLE',
      'TOO_MANY_WAITING',
      ...pulled,
    ],
  },
  putSecret: {
    summary: 'Keep a secret, in place of the one of that name if there is one',
    params: secretName,
    body: secrets.SecretSpec,
    reply: secrets.Secret,
    errors: [],
  },
  listSecrets: { summary: 'List the names of secrets', query: secrets.SecretQuery, reply: secrets.SecretList, errors: [] },
  deleteSecret: { summary: 'Remove a secret', params: secretName, reply: Ok, errors: ['SECRET_NOT_FOUND'] },
  events: { summary: 'Follow the state changes of all sessions', reply: session.SessionEventRecord, errors: [] },
  sessionEvents: {
    summary: 'Follow the state changes of a session',
    params: id,
    reply: session.SessionEventRecord,
    errors: found,
  },
  healthz: {
    summary: 'The daemon is up',
    public: true,
    reply: z.object({ status: z.literal('ok'), version: z.string() }),
    errors: [],
  },
  readyz: {
    summary: 'The daemon can create sessions',
    public: true,
    reply: z.object({
      status: z.enum(['ready', 'not_ready']),
      backends: z.array(z.object({ name: z.string(), available: z.boolean(), why: z.string().nullable() })),
    }),
    errors: [],
  },
  metrics: { summary: 'Prometheus metrics', reply: Bytes, errors: [] },
  openapi: { summary: 'This API as OpenAPI 3.1', public: true, reply: z.unknown(), errors: [] },
} as const satisfies Record<RouteName, RouteSchemas>

export type Route = RouteSchemas & (typeof PATHS)[RouteName]
type Routes = { [N in RouteName]: (typeof PATHS)[N] & (typeof SCHEMAS)[N] }

export const ROUTES = Object.fromEntries(
  (Object.keys(PATHS) as RouteName[]).map(name => [name, { ...PATHS[name], ...SCHEMAS[name] }]),
) as unknown as Routes

type Parsed<N extends RouteName, K extends string> =
  Routes[N] extends Record<K, infer S> ? (S extends z.ZodType ? z.output<S> : undefined) : undefined
type Sent<N extends RouteName, K extends string> =
  Routes[N] extends Record<K, infer S> ? (S extends z.ZodType ? z.input<S> : undefined) : undefined
/** What a handler receives, parsed. */
export type RouteParams<N extends RouteName> = Parsed<N, 'params'>
export type RouteQuery<N extends RouteName> = Parsed<N, 'query'>
export type RouteHeaders<N extends RouteName> = Parsed<N, 'headers'>
export type RouteBody<N extends RouteName> = Parsed<N, 'body'>
export type RouteReply<N extends RouteName> = Parsed<N, 'reply'>
/** What a client sends. */
export type RequestBody<N extends RouteName> = Sent<N, 'body'>
