import { SandglassError } from '@sandglass/contract/tables'
import { type FetchLike, SandboxClient, type SocketConstructor } from '@sandglass/sdk'
import { nodeFetch, unixFetch, upgradeError } from '@sandglass/sdk/node'
import type { Context } from './command.ts'
import { once } from './once.ts'
import { readApiKey, type Settings } from './settings.ts'

/** A client of the daemon. The daemon is started when the first call finds nobody listening, so that the usual call asks nothing first. */
export async function connect(context: Context, { sockets } = { sockets: false }): Promise<SandboxClient> {
  const settings = await context.settings()
  if ('url' in settings.address) return remote(settings, settings.address.url)
  const { socketPath } = settings.address
  const start = once(async () => (await import('./start-daemon.ts')).startDaemon(settings, socketPath, context))
  let apiKey = settings.apiKey ?? readApiKey(settings.dataDir)
  if (apiKey === undefined) {
    await start()
    apiKey = readApiKey(settings.dataDir)
  }
  if (apiKey === undefined) throw new SandglassError('UNAUTHORIZED', {})
  const fetch = startingFetch(unixFetch(socketPath), start)
  const WebSocket = sockets ? await unixWebSocket(socketPath) : undefined
  return new SandboxClient({ baseUrl: BASE_URL, address: socketPath, apiKey, fetch, WebSocket })
}

/** The host part means nothing over a unix socket. */
const BASE_URL = 'http://sandglass'

function remote(settings: Settings, url: string): SandboxClient {
  const apiKey = settings.apiKey ?? readApiKey(settings.dataDir)
  if (apiKey === undefined) throw new SandglassError('UNAUTHORIZED', {})
  return new SandboxClient({ baseUrl: url, apiKey, fetch: url.startsWith('http:') ? nodeFetch() : undefined })
}

/** Nothing was sent when a connection is refused, so the same call may follow the start. A daemon that answered before is not started again. */
function startingFetch(fetch: FetchLike, start: () => Promise<void>): FetchLike {
  let hasAnswered = false
  return async (url, init) => {
    try {
      const response = await fetch(url, init)
      hasAnswered = true
      return response
    } catch (error) {
      if (hasAnswered || !isNobodyThere(error)) throw error
      await start()
      return fetch(url, init)
    }
  }
}

/** A body can fail with the same codes, of other calls. */
function isNobodyThere(error: unknown): boolean {
  const { code, syscall } = error as NodeJS.ErrnoException
  return syscall === 'connect' && (code === 'ENOENT' || code === 'ECONNREFUSED')
}

async function unixWebSocket(socketPath: string): Promise<SocketConstructor> {
  const { WebSocket } = await import('ws')
  return class extends WebSocket {
    constructor(url: string, protocols: string[]) {
      super(`ws+unix:${socketPath}:${url.slice(BASE_URL.replace('http', 'ws').length)}`, protocols)
      this.once('unexpected-response', async (_, reply) => {
        this.emit('error', await upgradeError(reply))
        this.terminate()
      })
    }

    /** The other side's part of the closing is waited for, but not for long: the command line has nothing else to do. */
    override close(code?: number, reason?: string): void {
      super.close(code, reason)
      setTimeout(() => this.terminate(), CLOSE_MS).unref()
    }
  }
}

const CLOSE_MS = 500
