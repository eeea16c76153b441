// The contract's shapes in camelCase. Nothing here is written by hand: change the schema and these follow.
import type {
  RequestBody,
  RouteBody,
  RouteName,
  RouteQuery,
  RouteReply,
  SessionEventRecord,
  WatchEvent as WatchEventSchema,
} from '@sandglass/contract'
import type { Camel } from './case.ts'

export type Reply<Name extends RouteName> = Camel<RouteReply<Name>>
export type Body<Name extends RouteName> = Camel<RequestBody<Name>>
export type Query<Name extends RouteName> = Camel<RouteQuery<Name>>
type Options<Name extends RouteName, Given extends string> = Omit<Body<Name>, Given>

export type SessionInfo = Reply<'getSession'>
export type SessionPage = Reply<'listSessions'>
export type SessionOptions = Body<'createSession'>
export type SessionFilter = Omit<Query<'listSessions'>, 'limit' | 'offset' | 'cursor'>
export type SessionEvent = Camel<SessionEventRecord>
export type SessionStats = Reply<'sessionStats'>
export type Port = Reply<'listPorts'>['items'][number]

export type ExecOptions = Options<'exec', 'cmd'> & Cancel
export type ExecResult = Reply<'exec'>
export type ExecDone = Omit<ExecResult, 'output'>
export type ExecChunk = Extract<Reply<'execStream'>, { chunk: string }>
export type ShellInfo = Reply<'createShell'>
export type ShellOptions = Options<'createShell', 'name'> & Cancel
export type ProcessInfo = Reply<'startProcess'>
export type ProcessOptions = Options<'startProcess', 'argv'> & Cancel
export type SignalName = RouteBody<'signalProcess'>['signal']
export type TerminalSize = NonNullable<ProcessOptions['tty']>

export type FileInfo = Reply<'fsStat'>
export type WriteOptions = Omit<Options<'fsWrite', 'path'>, 'text' | 'contentBase64'> & Cancel
export type WatchEvent = Camel<(typeof WatchEventSchema)['_output']>

/** Every call can be given up. What the sandbox was asked to do may still happen. */
export type Cancel = { signal?: AbortSignal }
