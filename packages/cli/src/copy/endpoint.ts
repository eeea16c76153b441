// The two ends of a copy: a path in a session, a path on this machine, or a standard stream.
import { basename } from 'node:path'
import { SandglassError } from '@sandglass/sdk'
import { usage } from '../parser/parse.ts'

export type Endpoint = { kind: 'sandbox'; session: string; path: string } | { kind: 'host'; path: string } | { kind: 'stdio' }

/** `NAME:PATH` is in a session, `-` is stdin or stdout, anything else is a path on this machine; ./a:b is a local file with a colon. */
export function parseEndpoint(given: string): Endpoint {
  if (given === '-') return { kind: 'stdio' }
  const [, session, path] = /^([a-z][a-z0-9-]{0,40}|sess_[a-z0-9]{16}):(.*)$/s.exec(given) ?? []
  if (session === undefined || path === undefined) return { kind: 'host', path: given }
  return { kind: 'sandbox', session, path: path === '' ? '.' : path }
}

/** The name that a source gets in a target folder. */
export function nameOf(path: string): string {
  const name = basename(path)
  if (name === '' || name === '.' || name === '..')
    throw usage(`${path} has no name of its own to copy it under; name the target`)
  return name
}

export const endsInSlash = (path: string) => path.endsWith('/')

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

/**
 * Adds to an error which end of the copy it is about, since a path alone does not say. An error of the daemon is about the session; a system
 * error is about this machine.
 */
export function withEndpoint(error: unknown, session: string): unknown {
  if (error instanceof SandglassError) {
    const isMissing = error.is('FILE_NOT_FOUND') && error.detail.where === undefined
    if (!isMissing) return error
    const detail = { ...error.detail, where: inSession(session) }
    return new SandglassError('FILE_NOT_FOUND', detail, { cause: error, requestId: error.requestId })
  }
  const { code = '', path } = error as NodeJS.ErrnoException
  if (path === undefined || !Object.hasOwn(HOST_ERRORS, code)) return error
  return new SandglassError(HOST_ERRORS[code as keyof typeof HOST_ERRORS], { path, where: HERE }, { cause: error })
}
