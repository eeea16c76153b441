// Who may call: the bearer of the key.
import { createHash, timingSafeEqual } from 'node:crypto'
import type { IncomingMessage } from 'node:http'

const KEY_PREFIX = 'sandglass.bearer.'

/** SECURITY: digests of equal length are compared, in constant time: neither the key nor its length can be measured. */
export function keyChecker(apiKey: string): (offered: string | null) => boolean {
  const expected = digest(apiKey)
  return offered => offered !== null && timingSafeEqual(digest(offered), expected)
}

const digest = (text: string) => createHash('sha256').update(text).digest()

export function bearerKey({ headers }: IncomingMessage): string | null {
  const header = headers.authorization
  return header !== undefined && /^bearer /i.test(header) ? header.slice(7).trim() : null
}

/** A browser cannot set headers on a WebSocket; it offers the key as a protocol, as the contract's socketProtocols writes it. */
export function protocolKey({ headers }: IncomingMessage): string | null {
  const offered = (headers['sec-websocket-protocol'] ?? '').split(',').map(entry => entry.trim())
  const key = offered.find(entry => entry.startsWith(KEY_PREFIX))
  return key === undefined ? null : Buffer.from(key.slice(KEY_PREFIX.length), 'base64url').toString('utf8')
}
