// The SDK for Node: everything of the SDK, and a client that starts the local daemon, uses unix sockets and forwards ports.
export * from '../index.ts'
export { connectSocket, SandboxClient, type SocketOptions } from './client.ts'
export { connectLocal, type LocalOptions, resolveDataDir } from './connect-local.ts'
export { nodeFetch, unixFetch } from './fetch.ts'
export { fileBody } from './file-body.ts'
export { saveTo } from './save-to.ts'
