// Surrogates of JSON Web Tokens: clients decode a token to read its expiry and claims, so its surrogate must decode, too.
import { alphabetOf, BASE64URL, type RandomBytes, randomText } from './random-text.ts'

const THREE_PARTS = /^([A-Za-z0-9_-]+)\.([A-Za-z0-9_-]+)\.([A-Za-z0-9_-]{8,})$/
const MAX_DEPTH = 32

/**
 * A token with the same header, the same claims' names and types, and a random signature; null for a value that is not a JWT. Strings among
 * the claims are random, numbers stay: the expiry is one of them.
 */
export function makeJwtSurrogate(value: string, random: RandomBytes): string | null {
  const [, header = '', payload = '', signature = ''] = THREE_PARTS.exec(value) ?? []
  const claims = decodeObject(payload)
  if (decodeObject(header)?.alg === undefined || claims === null || depth(claims) > MAX_DEPTH) return null
  const body = Buffer.from(JSON.stringify(replaceStrings(claims, random))).toString('base64url')
  let surrogate: string
  do surrogate = `${header}.${body}.${randomText(BASE64URL, signature.length, random)}`
  while (surrogate.includes(value))
  return surrogate
}

function decodeObject(part: string): Record<string, unknown> | null {
  try {
    const data: unknown = JSON.parse(Buffer.from(part, 'base64url').toString())
    return isObject(data) ? data : null
  } catch {
    return null // not JSON: an opaque value that happens to have two dots
  }
}

function replaceStrings(data: unknown, random: RandomBytes): unknown {
  if (typeof data === 'string') return data === '' ? '' : randomText(alphabetOf(data), data.length, random)
  if (Array.isArray(data)) return data.map(item => replaceStrings(item, random))
  if (!isObject(data)) return data
  return Object.fromEntries(Object.entries(data).map(([name, item]) => [name, replaceStrings(item, random)]))
}

/** Counts one level more than MAX_DEPTH at most, so that deep claims do not exhaust the stack. */
function depth(data: unknown, level = 0): number {
  if (typeof data !== 'object' || data === null || level > MAX_DEPTH) return level
  return Math.max(level, ...Object.values(data).map(item => depth(item, level + 1)))
}

const isObject = (data: unknown): data is Record<string, unknown> =>
  typeof data === 'object' && data !== null && !Array.isArray(data)
