// The table of all errors: code, HTTP status, exit code of the command line, text and next step.
import { DAEMON_ERRORS } from './errors/daemon.ts'
import { FILES_ERRORS } from './errors/files.ts'
import { IMAGES_ERRORS } from './errors/images.ts'
import { NETWORK_ERRORS } from './errors/network.ts'
import { REQUESTS_ERRORS } from './errors/requests.ts'
import type { ErrorRow } from './errors/row.ts'
import { SESSIONS_ERRORS } from './errors/sessions.ts'
import { TASKS_ERRORS } from './errors/tasks.ts'

export type { ErrorRow } from './errors/row.ts'

export const ERRORS = {
  ...REQUESTS_ERRORS,
  ...SESSIONS_ERRORS,
  ...FILES_ERRORS,
  ...IMAGES_ERRORS,
  ...NETWORK_ERRORS,
  ...TASKS_ERRORS,
  ...DAEMON_ERRORS,
} as const satisfies Record<string, ErrorRow>

export type ErrorCode = keyof typeof ERRORS
export type ErrorDetail<C extends ErrorCode> = Parameters<(typeof ERRORS)[C]['text']>[0]
