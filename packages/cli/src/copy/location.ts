import { basename } from 'node:path'
import { SESSION_ID, SESSION_NAME } from '@sandglass/contract/tables'
import { usage } from '../parser/parse.ts'

export type Location = { kind: 'sandbox'; session: string; path: string } | { kind: 'host'; path: string } | { kind: 'stdio' }

/** `NAME:PATH` is in a sandbox, `-` is stdin or stdout, anything else is here. A file here with a colon is written ./a:b. */
export function parseLocation(given: string): Location {
  if (given === '-') return { kind: 'stdio' }
  const [, session = '', path] = /^([^:]+):(.*)$/s.exec(given) ?? []
  if (path === undefined || !(SESSION_NAME.test(session) || SESSION_ID.test(session))) return { kind: 'host', path: given }
  return { kind: 'sandbox', session, path: path === '' ? '.' : path }
}

/** The name that a copy gets when it is put into a directory. */
export function nameOf(path: string): string {
  const name = basename(path)
  if (name === '' || name === '.' || name === '..')
    throw usage(`${path} has no name of its own to copy it under; name the target`)
  return name
}

export const endsInSlash = (path: string) => path.endsWith('/')
