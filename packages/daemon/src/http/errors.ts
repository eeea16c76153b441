// Every failure of a request becomes an error of the contract's table here.
import { LIMITS, SandglassError, unitOf } from '@sandglass/contract'
import type { ReadTimeout } from '@sandglass/runner-link/backpressure'
import type { FastifyReply, FastifyRequest } from 'fastify'
import { ZodError } from 'zod'
import { isDiskFull } from '../data-dir/reserved-space.ts'
import type { Logger } from '../log.ts'

const LINGER_MS = 5000
/** The client closed the connection before its reply. Only in the metrics. */
const CLIENT_GONE = 499

export function sendError(error: unknown, request: FastifyRequest, response: FastifyReply, log: Logger): FastifyReply {
  if (request.socket.destroyed && error instanceof Error && (error.name === 'AbortError' || request.raw.errored === error)) {
    log.info('the client closed the connection before its reply')
    return response.code(CLIENT_GONE).send()
  }
  const failure = tooLarge(error, request) ?? toSandglassError(error, log)
  if (!request.raw.complete) discardBody(request, response)
  return response.code(failure.httpStatus).send({ error: failure.toWire(request.id) })
}

/** SECURITY: an error that is not in the table goes to the log and not to the client, which gets only the request id. */
export function toSandglassError(error: unknown, log: Logger): SandglassError {
  if (error instanceof SandglassError) {
    if (error.httpStatus >= 500) log.warn({ err: error, code: error.code }, 'request failed')
    return error
  }
  if (error instanceof ZodError) return new SandglassError('INVALID_REQUEST', { issue: readable(error) }, { cause: error })
  if (isDiskFull(error)) {
    log.error({ err: error }, 'the disk of the data folder is full')
    return new SandglassError('HOST_FULL', { what: 'the disk of its data folder is full' }, { cause: error })
  }
  const { code, statusCode } = error as { code?: unknown; statusCode?: unknown }
  if (code === 'FST_ERR_CTP_INVALID_MEDIA_TYPE') {
    const next = "with curl, add -H 'content-type: application/json'"
    return new SandglassError('INVALID_REQUEST', { issue: 'the body must be application/json', next }, { cause: error })
  }
  if (typeof code === 'string' && code.startsWith('FST_ERR') && typeof statusCode === 'number' && statusCode < 500) {
    return new SandglassError('INVALID_REQUEST', { issue: (error as Error).message }, { cause: error })
  }
  log.error({ err: error }, 'request failed unexpectedly')
  return new SandglassError('INTERNAL', {}, { cause: error })
}

/** A request that ends because the daemon stops has not failed: its client is told that the daemon stops. */
export function whileClosing(closing: AbortSignal, error: unknown, request: FastifyRequest): unknown {
  const isAborted = closing.aborted && error instanceof Error && error.name === 'AbortError'
  return isAborted ? stopping(request, error) : error
}

/** How long a client may take nothing of a stream. */
export const slowReader = (seconds: number): ReadTimeout => ({
  ms: seconds * 1000,
  error: () => new SandglassError('SLOW_READER', {}),
})

/** The error of a request that the stopping daemon ends. A command that has begun goes on in its session. */
export function stopping(request: FastifyRequest, cause?: unknown): SandglassError<'SHUTTING_DOWN'> {
  const { name } = request.routeOptions.config
  const isCommand = name === 'exec' || name === 'execStream'
  return new SandglassError('SHUTTING_DOWN', isCommand ? { session: sessionOf(request) } : {}, { cause })
}

/** The id or name of the session in the path; empty for a route without one. */
export const sessionOf = ({ params }: FastifyRequest): string => (params as { id?: string }).id ?? ''

/** `memory_mb must be 256 to 8192, not 64; …`, at most three. */
function readable(error: ZodError): string {
  return error.issues
    .slice(0, 3)
    .map(({ path, message }) => {
      if (path.length === 0) return message
      const withUnit = message.replace(/^must be [\w ]*\d(?=, not )/, range => range + unitOf(String(path.at(-1))))
      return `${path.join('.')}${/^(must|is) /.test(message) ? '' : ':'} ${withUnit}`
    })
    .join('; ')
}

/**
 * Reads the rest of the body and drops it, for a while: if the connection closed at once, a client that still sends would see a broken
 * connection instead of the reply.
 */
function discardBody({ raw, socket }: FastifyRequest, response: FastifyReply): void {
  response.removeHeader('connection')
  raw.resume()
  const cut = setTimeout(() => socket.destroy(), LINGER_MS)
  raw.once('close', () => clearTimeout(cut))
}

function tooLarge(error: unknown, request: FastifyRequest): SandglassError | null {
  if ((error as { code?: string }).code !== 'FST_ERR_CTP_BODY_TOO_LARGE') return null
  return new SandglassError(
    'BODY_TOO_LARGE',
    { limit: request.routeOptions.bodyLimit ?? LIMITS.request_body_bytes.max },
    { cause: error },
  )
}
