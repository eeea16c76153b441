import { SandglassError } from '@sandglass/contract/tables'
import { LOST } from '../transport/transport.ts'

/** A lost connection to what runs in a session: the error then says that it may still be running there. One that was never made stays as it is. */
export function abandoned(error: unknown, where: { session: string; pid?: number }): unknown {
  if (!(error instanceof SandglassError) || !error.is('DAEMON_UNREACHABLE') || !error.detail.why.startsWith(LOST)) return error
  const { message, requestId } = error
  return new SandglassError('DAEMON_UNREACHABLE', { ...error.detail, ...where }, { message, requestId, cause: error.cause })
}
