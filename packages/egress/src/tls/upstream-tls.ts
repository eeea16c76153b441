// TLS to a server: its certificate is verified, and an error says what is wrong with it.
import { isIP } from 'node:net'
import type { Duplex } from 'node:stream'
import { connect, createSecureContext, getCACertificates, type SecureContext, type TLSSocket } from 'node:tls'
import { HttpError } from '../http/errors.ts'

export interface UpstreamTlsOptions {
  /** Name or address that the certificate must be for. */
  readonly host: string
  readonly alpn: readonly string[]
  readonly context: SecureContext
  readonly signal: AbortSignal | null
  readonly timeoutMs?: number
}

const HANDSHAKE_MS = 10_000

/** The public roots, those of the system, and `extraRoots` (PEM). */
export function createTrust(extraRoots: readonly string[]): SecureContext {
  return createSecureContext({
    ca: [...new Set([...getCACertificates('default'), ...getCACertificates('system'), ...extraRoots])],
  })
}

/** Resolves when the server has proven to be `host`. Rejects with an HttpError, or the reason of the signal, and destroys the connection. */
export function connectTls(socket: Duplex, { host, alpn, context, signal, timeoutMs }: UpstreamTlsOptions): Promise<TLSSocket> {
  const { promise, resolve, reject } = Promise.withResolvers<TLSSocket>()
  const secure = connect({
    socket,
    host,
    // An address is not sent as a name, and is compared with the addresses in the certificate.
    servername: isIP(host) === 0 ? host : '',
    secureContext: context,
    ALPNProtocols: [...alpn],
    // SECURITY: secrets are sent to this server.
    rejectUnauthorized: true,
  })
  const fail = (error: unknown) => {
    settle(() => reject(error))
    secure.destroy()
    socket.destroy()
  }
  const onError = (error: NodeJS.ErrnoException) => fail(tlsError(host, error))
  const onClose = () => fail(new HttpError('upstream_tls', `${host} closed the connection during the TLS handshake`))
  const onAbort = () => fail(signal?.reason)
  const settle = (outcome: () => void) => {
    clearTimeout(timer)
    signal?.removeEventListener('abort', onAbort)
    secure.off('error', onError).off('close', onClose)
    outcome()
  }
  const late = () => fail(new HttpError('upstream_timeout', `the TLS handshake with ${host} took too long`))
  const timer = setTimeout(late, timeoutMs ?? HANDSHAKE_MS)
  secure.on('error', () => undefined) // whoever uses the connection sees its close
  secure.once('error', onError).once('close', onClose)
  secure.once('secureConnect', () => settle(() => resolve(secure)))
  if (signal?.aborted) onAbort()
  else signal?.addEventListener('abort', onAbort)
  return promise
}

/** Code of OpenSSL or node → what is wrong. */
const REASONS: Record<string, string> = {
  CERT_HAS_EXPIRED: 'has expired',
  CERT_NOT_YET_VALID: 'is not valid yet',
  CERT_REVOKED: 'has been revoked',
  CERT_SIGNATURE_FAILURE: 'has a wrong signature',
  ERR_TLS_CERT_ALTNAME_INVALID: 'is for another host',
  DEPTH_ZERO_SELF_SIGNED_CERT: 'is self-signed',
  SELF_SIGNED_CERT_IN_CHAIN: 'is issued by an authority that is not trusted',
  UNABLE_TO_GET_ISSUER_CERT: 'is issued by an unknown authority',
  UNABLE_TO_GET_ISSUER_CERT_LOCALLY: 'is issued by an unknown authority',
  UNABLE_TO_VERIFY_LEAF_SIGNATURE: 'is issued by an unknown authority, or the server does not send the intermediate certificates',
  INVALID_CA: 'is issued by a certificate that is no authority',
  INVALID_PURPOSE: 'is not for servers',
  CERT_CHAIN_TOO_LONG: 'has too long a chain',
}

function tlsError(host: string, cause: NodeJS.ErrnoException): HttpError {
  const reason = REASONS[cause.code ?? '']
  if (reason !== undefined) return new HttpError('upstream_tls', `the certificate of ${host} ${reason}`, { cause })
  if (cause.code === 'ECONNRESET')
    return new HttpError('upstream_tls', `${host} closed the connection during the TLS handshake`, { cause })
  return new HttpError('upstream_tls', `TLS with ${host} failed: ${cause.code ?? cause.message}`, { cause })
}
