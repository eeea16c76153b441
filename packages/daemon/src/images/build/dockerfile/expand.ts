// Expands $NAME and ${NAME:-word} in FROM, with the values of the ARGs before it.
import { ARCHITECTURE } from '../../manifest.ts'

export type Values = ReadonlyMap<string, string>

const PLATFORM = `linux/${ARCHITECTURE}`
/** The predefined platform arguments. */
export const PREDEFINED_ARGS: Readonly<Record<string, string>> = {
  BUILDPLATFORM: PLATFORM,
  TARGETPLATFORM: PLATFORM,
  BUILDOS: 'linux',
  TARGETOS: 'linux',
  BUILDARCH: ARCHITECTURE,
  TARGETARCH: ARCHITECTURE,
}

const VARIABLE = /\$(?:(\w+)|\{(\w+)(?:(:?[-+])([^}]*))?\})/g

export function expand(text: string, values: Values): string {
  return text.replace(VARIABLE, (_, plain?: string, braced?: string, how?: string, word = '') => {
    const value = values.get(plain ?? braced ?? '')
    if (how === undefined) return value ?? ''
    const isSet = value !== undefined && (value !== '' || !how.startsWith(':'))
    if (how.endsWith('+')) return isSet ? expand(word, values) : ''
    return isSet ? (value ?? '') : expand(word, values)
  })
}

/** Parses the arguments of ARG: one or more of NAME=value or NAME. */
export function argsIn(rest: string): { name: string; value: string | undefined }[] {
  return [...rest.matchAll(/(\w+)(?:=("(?:[^"\\]|\\.)*"|'[^']*'|\S*))?/g)].map(([, name = '', value]) => ({
    name,
    value: value?.replace(/^(["'])(.*)\1$/s, '$2'),
  }))
}
