// Names for the types that are generated from the contract.
import type { RouteName } from '@sandglass/contract/tables'
import type { Bodies, ContextFile, Queries, Replies } from './generated/shapes.ts'

export type Reply<Name extends RouteName> = Replies[Name]
export type Body<Name extends RouteName> = Name extends keyof Bodies ? Bodies[Name] : undefined
export type Query<Name extends RouteName> = Name extends keyof Queries ? Queries[Name] : undefined
type Options<Name extends RouteName, Given extends string> = Omit<Body<Name>, Given>

export type SessionInfo = Reply<'getSession'>
export type SessionPage = Reply<'listSessions'>
export type SessionOptions = Body<'createSession'>
export type SessionFilter = Omit<Query<'listSessions'>, 'limit' | 'offset' | 'cursor'>
export type ResizeOptions = Body<'resizeSession'> & Cancel
export type SessionEvent = Reply<'sessionEvents'>
export type SessionStats = Reply<'sessionStats'>
export type StartOptions = Body<'startSession'> & Cancel
export type SecretInfo = Reply<'putSecret'>
export type SecretOptions = Options<'putSecret', 'value'>
export type PolicyInfo = Reply<'putPolicy'>
/** The rules of a policy. A list that is absent is empty and allows nothing. */
export type PolicyOptions = Body<'putPolicy'>
export type PolicyCheck = Reply<'checkPolicy'>
export type SessionPolicies = Body<'setSessionPolicies'>
export type NetworkEntry = Reply<'networkLog'>
export type NetworkLogOptions = Query<'networkLog'>
export type ApprovalInfo = Reply<'allowApproval'>
export type ApprovalFilter = Omit<Query<'listApprovals'>, 'limit' | 'offset' | 'cursor'>
export type ApprovalAnswer = Body<'allowApproval'>
export type CaInfo = Reply<'getCa'>
export type ImageInfo = Reply<'getImage'>
export type ImageProgress = Extract<Reply<'pullImage'>, { phase: string }>
export type BuildStep = Extract<Reply<'buildImage'>, { instruction: string }>
export type BuildResult = Extract<Reply<'buildImage'>, { cached: boolean; image: unknown }>
export type BuildHash = Reply<'hashImage'>
export type ImageRemoved = Reply<'deleteImage'>
export type Port = Reply<'listPorts'>['items'][number]

export type AgentInfo = Reply<'listAgents'>['items'][number]
export type InstallProgress = Reply<'installAgent'>
export type InstallOptions = Body<'installAgent'> & { onProgress?: (progress: InstallProgress) => void } & Cancel
export type AgentScreen = Reply<'prepareAgent'>
export type AgentScreenOptions = Body<'prepareAgent'> & Cancel
export type UploadInfo = Reply<'createUpload'>
export type TaskInfo = Reply<'getTask'>
export type TaskOptions = Body<'createTask'>
export type TaskPage = Reply<'listTasks'>
export type TaskFilter = Omit<Query<'listTasks'>, 'limit' | 'offset' | 'cursor'>
export type TaskEvent = Reply<'taskEvents'>
export type TaskEventsOptions = Query<'taskEvents'> & {
  /** Only the events after the one with this id. */
  after?: number
} & Cancel
export type TaskResult = Reply<'taskResult'>
export type TokenUsage = TaskResult['usage']
export type ContextInfo = Reply<'getContext'>
export type ContextPage = Reply<'listContexts'>
export type ContextReply = ContextFile['replies'][number]
export type { ContextFile }

export type ExecOptions = Options<'exec', 'cmd'> & Cancel
export type ExecStreamOptions = ExecOptions & {
  /** Called with true when the command waits for a busy shell, and with false when it begins after that. */
  onWaiting?: (isWaiting: boolean) => void
}
export type ExecResult = Reply<'exec'>
export type ExecDone = Omit<ExecResult, 'output'>
export type ExecChunk = Extract<Reply<'execStream'>, { chunk: string }>
export type ShellInfo = Reply<'createShell'>
export type ShellOptions = Options<'createShell', 'name'> & Cancel
export type ProcessInfo = Reply<'startProcess'>
export type ProcessTableRow = Reply<'processTable'>['items'][number]
export type ProcessOptions = Options<'startProcess', 'argv'> & Cancel
export type TerminalSize = NonNullable<ProcessOptions['tty']>

export type FileInfo = Reply<'fsStat'>
export type WriteOptions = Omit<Options<'fsWrite', 'path'>, 'text' | 'contentBase64'> & Cancel
export type WatchEvent = Reply<'fsWatch'>

/** Every call can be aborted. A command is then interrupted and killed; any other request may still take effect. */
export type Cancel = { signal?: AbortSignal }
