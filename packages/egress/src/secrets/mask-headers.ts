// Replaces surrogates in headers, and removes credentials that are not ours.
import type { HeaderList } from '../http/message.ts'
import { hasWildcard, matchesGlob } from '../policy/glob.ts'
import type { SessionSecret } from '../session.ts'
import { decodeBasic, insertInBasic } from './basic.ts'

export interface MaskedHeaders {
  readonly headers: HeaderList
  /** The name of the secret, once for each insertion. */
  readonly inserted: readonly string[]
  readonly stripped: readonly string[]
  readonly refused: string | null
}

/** SECURITY: they are for the next hop, or say where a message ends; a value in one of them would reach a proxy or change the framing. */
const NEVER = new Set([
  'proxy-authorization',
  'proxy-connection',
  'connection',
  'content-length',
  'expect',
  'host',
  'keep-alive',
  'te',
  'trailer',
  'transfer-encoding',
  'upgrade',
])
/** They hold several values, and only one of them is a credential: a wildcard does not mean them, and repeated ones are joined. */
const LISTS: ReadonlyMap<string, string> = new Map([
  ['cookie', '; '],
  ['sec-websocket-protocol', ', '],
])

const TEXT = /^[\t\x20-\x7e\x80-\xff]*$/
const TOKEN = /^[!#$%&'*+.^_`|~0-9A-Za-z-]+$/
/** An optional scheme and one credential. */
const ONE_CREDENTIAL = /^[ \t]*([A-Za-z0-9_-]+[ \t]+)?[^ \t,]+[ \t]*$/

/** `secrets` are those in scope, AWS secrets included: their headers are not replaced here, but neither are they foreign. */
export function maskHeaders(secrets: readonly SessionSecret[], headers: HeaderList): MaskedHeaders {
  const inserted: string[] = []
  const stripped: string[] = []
  const result: (readonly [string, string])[] = []
  const fail = (refused: string): MaskedHeaders => ({ headers, inserted: [], stripped: [], refused })
  // SECURITY: a value in several lines can hide a surrogate, or become a header of its own on the way.
  if (headers.some(([, value]) => /[\r\n\0]/.test(value))) return fail('a header has a line break or NUL in its value')
  const done = new Set<string>()
  for (const header of headers) {
    const name = header[0].toLowerCase()
    const users = secrets.filter(secret => isListed(secret, name))
    if (users.length === 0) result.push(header)
    if (users.length === 0 || done.has(name)) continue
    done.add(name)
    const same = headers.filter(([other]) => other.toLowerCase() === name)
    const isStrict = users.some(secret => !secret.allow_foreign_credentials && secret.headers.includes(name))
    const text = findCarrier(users, name, same, isStrict)
    if (text === null ? isStrict : same.length > 1 && !LISTS.has(name)) stripped.push(name)
    if (text === null && !isStrict) result.push(...same)
    if (text === null) continue
    const masked = insertAll(users, name, text)
    if ('refused' in masked) return fail(masked.refused)
    result.push([header[0], masked.text])
    inserted.push(...masked.inserted)
  }
  return { headers: result, inserted, stripped, refused: null }
}

function isListed(secret: SessionSecret, name: string): boolean {
  if (NEVER.has(name)) return false
  return (
    secret.headers.includes(name) ||
    (!LISTS.has(name) && secret.headers.some(item => hasWildcard(item) && matchesGlob(item, name)))
  )
}

/**
 * The value with a surrogate among the headers of one name, which are collapsed to it; null if none has one.
 *
 * SECURITY: a strict header must be one credential. Servers that take the second word of "Bearer their-key surrogate" would otherwise accept
 * a key that is not ours.
 */
function findCarrier(users: readonly SessionSecret[], name: string, same: HeaderList, isStrict: boolean): string | null {
  const values = same.map(([, value]) => value)
  const separator = LISTS.get(name)
  if (separator !== undefined) {
    const joined = values.join(separator)
    return users.some(secret => carries(secret, name, joined)) ? joined : null
  }
  const carrier = values.find(value =>
    users.some(secret => carries(secret, name, value) && (!isStrict || secret.kind === 'aws' || ONE_CREDENTIAL.test(value))),
  )
  return carrier ?? null
}

function carries(secret: SessionSecret, name: string, value: string): boolean {
  if (secret.kind === 'masked') {
    return (
      value.includes(secret.surrogate) || (name === 'authorization' && decodeBasic(value)?.includes(secret.surrogate) === true)
    )
  }
  const { access_key_id, session_token } = secret.surrogate
  return value.includes(access_key_id) || (session_token !== undefined && value.includes(session_token))
}

function insertAll(
  users: readonly SessionSecret[],
  name: string,
  value: string,
): { text: string; inserted: string[] } | { refused: string } {
  const inserted: string[] = []
  let text = value
  for (const secret of users) {
    if (secret.kind !== 'masked' || !carries(secret, name, text)) continue
    const masked = insert(secret, name, text)
    // SECURITY: a line break in a value would add a header to the request.
    if (masked === null)
      return { refused: `the value of the secret ${secret.name} has a character that the header ${name} cannot have` }
    text = masked.text
    for (let i = 0; i < masked.count; i++) inserted.push(secret.name)
  }
  return { text, inserted }
}

function insert(
  secret: { value: string; surrogate: string },
  name: string,
  text: string,
): { text: string; count: number } | null {
  const credentials = name === 'authorization' ? decodeBasic(text) : null
  if (credentials?.includes(secret.surrogate)) return insertInBasic(credentials, secret)
  if (!(name === 'sec-websocket-protocol' ? TOKEN : TEXT).test(secret.value)) return null
  const parts = text.split(secret.surrogate)
  return { text: parts.join(secret.value), count: parts.length - 1 }
}
