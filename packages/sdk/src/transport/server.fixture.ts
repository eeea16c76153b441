// A real HTTP and WebSocket server with answers chosen by a test.
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import type { AddressInfo, Socket } from 'node:net'
import { type WebSocket, WebSocketServer } from 'ws'

export type Handler = (request: IncomingMessage & { text: string }, reply: ServerResponse) => void | Promise<void>
type SocketHandler = (socket: WebSocket, request: IncomingMessage) => void

export type TestServer = AsyncDisposable & {
  url: string
  requests: { method: string; url: string; headers: IncomingMessage['headers']; text: string }[]
}

export async function startServer(handle: Handler, onSocket?: SocketHandler, listenOn: string | number = 0): Promise<TestServer> {
  const requests: TestServer['requests'] = []
  const sockets = new Set<Socket>()
  const server = createServer(async (request, reply) => {
    const pieces: Buffer[] = []
    for await (const piece of request) pieces.push(piece)
    const text = Buffer.concat(pieces).toString()
    requests.push({ method: request.method ?? '', url: request.url ?? '', headers: request.headers, text })
    await handle(Object.assign(request, { text }), reply)
  })
  server.on('connection', socket => sockets.add(socket))
  if (onSocket) {
    const webSockets = new WebSocketServer({ server, handleProtocols: offered => [...offered][0] ?? false })
    webSockets.on('connection', onSocket)
  }
  await new Promise<void>(resolve => server.listen(listenOn, resolve))
  const address = server.address() as AddressInfo | string
  return {
    url: typeof address === 'string' ? 'http://sandglass' : `http://127.0.0.1:${address.port}`,
    requests,
    async [Symbol.asyncDispose]() {
      for (const socket of sockets) socket.destroy()
      await new Promise(resolve => server.close(resolve))
    },
  }
}

export function json(reply: ServerResponse, status: number, body: unknown): void {
  reply.writeHead(status, { 'content-type': 'application/json' }).end(JSON.stringify(body))
}

export const SESSION = {
  id: 'sess_0123456789abcdef',
  name: 'calm-otter',
  status: 'running',
  expires_at: null,
  labels: { a_b: 'c' },
}
