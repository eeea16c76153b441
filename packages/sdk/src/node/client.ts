// The client for Node.
import { SandboxClient as WebClient } from '../client.ts'
import type { ClientOptions } from '../transport/transport.ts'
import { nodeFetch, unixFetch } from './fetch.ts'
import { forward } from './forward.ts'
import { type Starting, starting } from './start-once.ts'
import { upgradeTo } from './upgrade.ts'
import { webSocketOver } from './web-socket.ts'

/** The client for Node: faster calls, WebSockets on every version of Node, and port forwards. */
export class SandboxClient extends WebClient {
  constructor(options: ClientOptions) {
    const { fetch = options.baseUrl.startsWith('http:') ? nodeFetch() : undefined } = options
    const { WebSocket = webSocketOver(upgradeTo({})) } = options
    super({ forward, ...options, fetch, WebSocket })
  }
}

export type SocketOptions = Omit<ClientOptions, 'baseUrl' | 'address' | 'fetch'> & {
  /** The socket that the daemon listens on. */
  socketPath: string
  /** Starts the daemon; called when no daemon listens at the first call. */
  start?: Starting | (() => Promise<void>)
}

/** The host is ignored over a unix socket. */
const BASE_URL = 'http://sandglass'

/** A client of the daemon that listens on a unix socket of this machine. */
export function connectSocket({ socketPath, start, ...options }: SocketOptions): SandboxClient {
  const fetch = unixFetch(socketPath)
  const upgrade = upgradeTo({ socketPath })
  const given = { WebSocket: webSocketOver(upgrade), ...options, baseUrl: BASE_URL, address: socketPath, fetch }
  if (start === undefined) return new SandboxClient(given)
  const { around } = typeof start === 'function' ? starting(start) : start
  return new SandboxClient({
    ...given,
    fetch: (url, init) => around(() => fetch(url, init), init.signal),
    WebSocket:
      options.WebSocket ?? webSocketOver((url, protocols, signal) => around(() => upgrade(url, protocols, signal), signal)),
  })
}
