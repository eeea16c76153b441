// A copy has two sides, and a path alone does not tell which of them something is wrong with.
import { SandglassError } from '@sandglass/sdk'

export const HERE = 'on this machine'
export const inSession = (name: string) => `in session ${name}`

const HOST_ERRORS = {
  ENOENT: 'FILE_NOT_FOUND',
  EACCES: 'PERMISSION_DENIED',
  EPERM: 'PERMISSION_DENIED',
  EROFS: 'PERMISSION_DENIED',
  ENOTDIR: 'NOT_A_DIRECTORY',
  EISDIR: 'IS_A_DIRECTORY',
} as const

/** The same error with its side. What the daemon answered is about the session; what the system said is about this machine. */
export function withSide(error: unknown, session: string): unknown {
  if (error instanceof SandglassError) {
    const isMissing = error.is('FILE_NOT_FOUND') && error.detail.where === undefined
    return isMissing ? error.with({ where: inSession(session) }) : error
  }
  const { code = '', path } = error as NodeJS.ErrnoException
  if (path === undefined || !Object.hasOwn(HOST_ERRORS, code)) return error
  return new SandglassError(HOST_ERRORS[code as keyof typeof HOST_ERRORS], { path, where: HERE }, { cause: error })
}
