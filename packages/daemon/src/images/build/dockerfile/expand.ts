// $NAME and ${NAME:-word} in the FROM of a Dockerfile, whose values are the ARGs in front of it.
import { ARCHITECTURE } from '../../manifest.ts'

export type Values = ReadonlyMap<string, string>

const PLATFORM = `linux/${ARCHITECTURE}`
/** What every Dockerfile may take for given. */
export const GIVEN: Readonly<Record<string, string>> = {
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

/** NAME=value, or NAME alone; several may stand in one ARG. */
export function argsIn(rest: string): { name: string; value: string | undefined }[] {
  return [...rest.matchAll(/(\w+)(?:=("(?:[^"\\]|\\.)*"|'[^']*'|\S*))?/g)].map(([, name = '', value]) => ({
    name,
    value: value?.replace(/^(["'])(.*)\1$/s, '$2'),
  }))
}
