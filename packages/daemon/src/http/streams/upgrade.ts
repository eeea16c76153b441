// Upgrades to WebSockets. An upgrade goes through the routes and checks of every other request; its handler then accepts it, or the error is a plain
// HTTP reply.
import { type IncomingMessage, type RequestListener, type Server, ServerResponse } from 'node:http'
import type { Socket } from 'node:net'
import type { Duplex } from 'node:stream'
import { SOCKET_PROTOCOL } from '@sandglass/contract'
import { type WebSocket, WebSocketServer } from 'ws'
import type { Logger } from '../../log.ts'

const MAX_MESSAGE = 1024 * 1024
const RESTARTING = 1012
const CLOSE_MS = 500

export class Upgrades {
  readonly #sockets = new WebSocketServer({
    noServer: true,
    perMessageDeflate: false,
    maxPayload: MAX_MESSAGE,
    handleProtocols: offered => (offered.has(SOCKET_PROTOCOL) ? SOCKET_PROTOCOL : false),
  })
  readonly #pending = new WeakMap<IncomingMessage, { socket: Duplex; head: Buffer }>()
  readonly #log: Logger

  constructor(log: Logger) {
    this.#log = log
  }

  /** Passes the upgrades of a server to the listener of its requests. */
  attach(server: Server, onRequest: RequestListener): void {
    server.on('upgrade', (request, socket, head) => {
      socket.on('error', err => this.#log.debug({ err }, 'connection failed'))
      this.#pending.set(request, { socket, head })
      const response = new ServerResponse(request)
      response.shouldKeepAlive = false
      // Only a refusal is written to it. A client that sends an upgrade before the reply to an earlier request gets none.
      try {
        response.assignSocket(socket as ServerResponse['socket'] & Socket)
      } catch {
        return void socket.destroy()
      }
      // A client that does not close its side would keep the server from closing.
      response.once('finish', () => (socket as Socket).destroySoon())
      onRequest(request, response)
    })
  }

  has(request: IncomingMessage): boolean {
    return this.#pending.has(request)
  }

  /** Completes the handshake and runs `run` with the WebSocket, unless the client has left. */
  accept(request: IncomingMessage, run: (socket: WebSocket) => void): void {
    const upgrade = this.#pending.get(request)
    if (upgrade && !upgrade.socket.destroyed) this.#sockets.handleUpgrade(request, upgrade.socket, upgrade.head, run)
  }

  closeAll(): void {
    for (const socket of this.#sockets.clients) {
      socket.close(RESTARTING, 'the daemon is stopping')
      // A client that does not answer would keep the server from closing.
      setTimeout(() => socket.terminate(), CLOSE_MS).unref()
    }
  }
}
