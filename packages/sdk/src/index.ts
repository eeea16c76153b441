export {
  type AgentName,
  ERRORS,
  type ErrorCode,
  type Outcome,
  SandglassError,
  type SignalInput,
  type SignalName,
  type TaskReason,
} from '@sandglass/contract/tables'
export type { Agents } from './agents.ts'
export type { Approvals } from './approvals.ts'
export type { CertificateAuthority } from './certificate-authority.ts'
export { SandboxClient } from './client.ts'
export type { Contexts } from './contexts.ts'
export type { BuildOptions, HashOptions, ImageOptions, Images } from './images.ts'
export type { Policies } from './policies.ts'
export type { Secrets } from './secrets.ts'
export type { Attachment, Exit, Output } from './session/attachment.ts'
export type { ExecStream } from './session/exec-stream.ts'
export type { Forward, ForwardLike, ForwardOptions } from './session/forward.ts'
export type { SessionNetwork } from './session/network.ts'
export { Session } from './session/session.ts'
export type { Tasks } from './tasks.ts'
export type { BodySource } from './transport/body.ts'
export { camelName, snakeName, toCamel, toSnake } from './transport/case.ts'
export type { ByteSocket, SocketConstructor, SocketLike } from './transport/socket.ts'
export type { ClientOptions, FetchInit, FetchLike, ResponseLike } from './transport/transport.ts'
export type { Uploads } from './uploads.ts'
export type * from './wire-types.ts'
