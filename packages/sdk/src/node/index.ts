// The SDK for Node: everything of the SDK, and a client that starts the local daemon, uses unix sockets and forwards ports.
export * from '../index.ts'
export { connectSocket, SandboxClient, type SocketOptions } from './client.ts'
export { connectLocal, type LocalOptions, resolveDataDir } from './connect-local.ts'
export { nodeFetch, unixFetch } from './fetch.ts'
export { fileBody } from './file-body.ts'
export { ImageBuildError, ProxyError, SandboxError } from './sandbox/errors.ts'
export type { ExecutionResult } from './sandbox/execution-result.ts'
export type { NetworkLog } from './sandbox/network-log.ts'
export {
  type EnsureImageOptions,
  type ImageBuildProgress,
  Sandbox,
  type SandboxOptions,
  type StartupOptions,
} from './sandbox/sandbox.ts'
export type { SessionStore } from './sandbox/session-store.ts'
export { type ExecuteOptions, Task } from './sandbox/task.ts'
export type { CreateTaskOptions, MaskedSecret, SigningCredential } from './sandbox/task-options.ts'
export { saveTo } from './save-to.ts'
