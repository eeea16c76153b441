// Headers as node:http2 has them, names and values in turn, and as the rest of the egress process has them.
import { type OutgoingHttpHeaders, sensitiveHeaders } from 'node:http2'
import { HttpError } from '../errors.ts'
import { type Fields, sortFields, sortTrailers } from '../fields.ts'
import type { HeaderList } from '../message.ts'
import { isFieldValue, isToken } from '../syntax.ts'

/** SECURITY: these never enter the compression table of a connection, where the length of a guess would tell whether it was right. */
const SENSITIVE = /^(?:authorization|cookie|set-cookie|.*(?:api-?key|token|secret|signature|credential|password).*)$/

export interface H2Fields extends Fields {
  readonly pseudo: ReadonlyMap<string, string>
}

/** Cookies that the client has sent one by one are joined, as RFC 9113, 8.2.3 says. */
export function fromRawHeaders(raw: readonly string[], role: 'request' | 'response'): H2Fields {
  const pseudo = new Map<string, string>()
  const lines: [string, string][] = []
  const cookies: string[] = []
  let cookieAt = -1
  for (let at = 0; at + 1 < raw.length; at += 2) {
    const name = raw[at] ?? ''
    const value = raw[at + 1] ?? ''
    if (name.startsWith(':')) pseudo.set(name, value)
    else if (name === 'cookie') {
      if (cookieAt === -1) cookieAt = lines.push([name, value]) - 1
      cookies.push(value)
    } else lines.push([name, value])
  }
  if (cookies.length > 1) lines[cookieAt] = ['cookie', cookies.join('; ')]
  for (const [name, value] of lines) check(name, value)
  return { ...sortFields(lines, role), pseudo }
}

export function trailersFromRaw(raw: readonly string[]): HeaderList {
  const { headers } = fromRawHeaders(raw, 'request')
  return sortTrailers(headers)
}

export function toRawHeaders(pseudo: HeaderList, headers: HeaderList): string[] {
  const raw = pseudo.flat()
  const sensitive: string[] = []
  for (const [written, value] of headers) {
    const name = written.toLowerCase()
    // :authority says it.
    if (name === 'host') continue
    check(name, value)
    raw.push(name, value)
    if (SENSITIVE.test(name)) sensitive.push(name)
  }
  return Object.assign(raw, { [sensitiveHeaders]: sensitive })
}

export function toTrailers(trailers: HeaderList): OutgoingHttpHeaders {
  const headers: Record<string, string[]> = {}
  for (const [written, value] of trailers) {
    const name = written.toLowerCase()
    check(name, value)
    headers[name] = [...(headers[name] ?? []), value]
  }
  return headers
}

function check(name: string, value: string): void {
  if (!isToken(name) || !isFieldValue(value))
    throw new HttpError('malformed', 'a header contains a character that cannot be sent')
}
