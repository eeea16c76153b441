// Every failure of a request becomes one of the table's, in one place.
import { SandglassError, unitOf } from '@sandglass/contract'
import { ZodError } from 'zod'
import { isDiskFull } from '../data-dir/reserved-space.ts'
import type { Logger } from '../log.ts'

/** SECURITY: what is not in the table is told to the log and not to the client, which learns only the request id. */
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
