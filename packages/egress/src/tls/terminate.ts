// Answers a TLS client in the place of the server that it asks for.
import type { Socket } from 'node:net'
import type { Duplex } from 'node:stream'
import { type SecureContext, TLSSocket } from 'node:tls'

export interface TerminateOptions {
  /** Protocols that are offered, the preferred one first. */
  readonly alpn: readonly string[]
  readonly timeoutMs?: number
}

const HANDSHAKE_MS = 10_000

/**
 * Resolves when the handshake is complete. Bytes that were read before are put back with `unshift`; a net.Socket then does its TLS on the native
 * handle. Rejects, and destroys the connection, if the client gives up, does not trust the certificate, or is too slow.
 */
export function terminateTls(socket: Duplex, context: SecureContext, options: TerminateOptions): Promise<TLSSocket> {
  const { promise, resolve, reject } = Promise.withResolvers<TLSSocket>()
  // Any Duplex will do; the declared type is too narrow.
  const secure = new TLSSocket(socket as Socket, {
    isServer: true,
    secureContext: context,
    ALPNProtocols: [...options.alpn],
  })
  const fail = (error: Error) => {
    secure.off('secure', succeed)
    secure.destroy()
    socket.destroy()
    settle(() => reject(error))
  }
  const onClose = () => fail(new Error('the client closed the connection during the TLS handshake'))
  const settle = (outcome: () => void) => {
    clearTimeout(timer)
    secure.off('error', fail).off('end', onClose).off('close', onClose)
    outcome()
  }
  const succeed = () => {
    // What a tls.Server does for its connections: node:http2 waits for the end of the handshake otherwise, and later failures are not reported.
    Object.assign(secure, { secureConnecting: false })
    secure.on('_tlsError', (error: Error) => secure.destroy(error))
    settle(() => resolve(secure))
  }
  const timer = setTimeout(() => fail(new Error('the TLS handshake took too long')), options.timeoutMs ?? HANDSHAKE_MS)
  // An error that comes when nobody waits any more is followed by a close.
  secure.on('error', () => undefined)
  secure.once('error', fail).once('end', onClose).once('close', onClose).once('secure', succeed)
  return promise
}
