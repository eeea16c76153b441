// The handshake of a WebSocket, over TCP, TLS or a unix socket.
import type { IncomingMessage } from 'node:http'
import type { Duplex } from 'node:stream'
import { withResolvers } from '../transport/with-resolvers.ts'
import { requestTo, type Target, upgradeError } from './fetch.ts'

/** The connection after the handshake, and the bytes read past the handshake. */
export type Upgraded = { socket: Duplex; head: Buffer<ArrayBuffer> }
export type Upgrade = (url: URL, protocols: readonly string[], signal: AbortSignal) => Promise<Upgraded>

/** Rejects with the error of the daemon if it refuses. */
export const upgradeTo =
  (target: Target): Upgrade =>
  async (url, protocols, signal) => {
    const { randomBytes, createHash } = process.getBuiltinModule('node:crypto')
    const { request } = url.protocol === 'wss:' ? process.getBuiltinModule('node:https') : process.getBuiltinModule('node:http')
    const key = randomBytes(16).toString('base64')
    const { promise, resolve, reject } = withResolvers<Upgraded>()
    const call = request({
      ...requestTo(target, url),
      signal,
      agent: false,
      headers: {
        host: url.host,
        connection: 'Upgrade',
        upgrade: 'websocket',
        'sec-websocket-version': '13',
        'sec-websocket-key': key,
        'sec-websocket-protocol': protocols.join(', '),
      },
    })
    call.on('error', reject)
    call.on('response', reply => void upgradeError(reply).then(reject, reject))
    call.on('upgrade', (reply: IncomingMessage, socket: Duplex, head: Buffer<ArrayBuffer>) => {
      const expected = createHash('sha1')
        .update(key + GUID)
        .digest('base64')
      const mistake = mistakeIn(reply, expected, protocols)
      if (mistake === undefined) resolve({ socket, head })
      else {
        socket.destroy()
        reject(new Error(mistake))
      }
    })
    call.end()
    return promise
  }

/** Constant of RFC 6455, section 1.3: the server proves with it that it speaks WebSocket. */
const GUID = '258EAFA5-E914-47DA-95CA-C5AB0DC85B11'

function mistakeIn({ headers }: IncomingMessage, accept: string, offered: readonly string[]): string | undefined {
  if (headers.upgrade?.toLowerCase() !== 'websocket' || headers['sec-websocket-accept'] !== accept)
    return 'the answer to the upgrade is not that of a WebSocket server'
  if (headers['sec-websocket-extensions'] !== undefined) return 'the server uses an extension that was not offered'
  const protocol = headers['sec-websocket-protocol']
  if (protocol !== undefined && !offered.includes(protocol)) return 'the server chose a protocol that was not offered'
  return undefined
}
