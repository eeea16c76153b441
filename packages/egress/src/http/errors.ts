// Failures of the protocol engine, with the status that a client gets for each.

/** Kind of a failure → status. */
export const HTTP_ERRORS = {
  /** The request breaks the grammar, or could be read in two ways. */
  malformed: 400,
  /** The request is for another host or port than its connection. */
  misdirected: 421,
  head_too_large: 431,
  head_timeout: 408,
  expectation: 417,
  /** A feature of HTTP that is not offered here. */
  unsupported: 501,
  /** The client went away: nobody gets this status. */
  client_gone: 499,
  unreachable: 502,
  /** The server's certificate is not valid for its name, or TLS failed. */
  upstream_tls: 502,
  upstream_malformed: 502,
  upstream_closed: 502,
  upstream_timeout: 504,
} as const
export type HttpErrorKind = keyof typeof HTTP_ERRORS

export class HttpError extends Error {
  readonly kind: HttpErrorKind

  constructor(kind: HttpErrorKind, message: string, options?: ErrorOptions) {
    super(message, options)
    this.name = 'HttpError'
    this.kind = kind
  }

  get status(): number {
    return HTTP_ERRORS[this.kind]
  }
}

/** What went wrong on the connection to a server, which is not the client's fault. */
export function asUpstreamError(error: unknown): HttpError {
  if (!(error instanceof HttpError))
    return new HttpError('upstream_closed', 'the connection to the server failed', { cause: error })
  if (error.kind === 'client_gone')
    return new HttpError('upstream_closed', 'the server closed the connection too early', { cause: error })
  if (error.status >= 500 && error.kind !== 'unsupported') return error
  return new HttpError('upstream_malformed', `the server's reply is not valid: ${error.message}`, { cause: error })
}
