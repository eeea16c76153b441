// The canonical request of AWS Signature Version 4: method, path, query and headers in the one form that both sides hash.
import { createHash } from 'node:crypto'
import { type HeaderList, type RequestHead, valuesOf } from '../../http/message.ts'
import { writeAuthority } from '../../http/syntax.ts'

export const sha256 = (data: string | Buffer): string => createHash('sha256').update(data).digest('hex')

/** Services that encode the path once; all others encode the encoded path again. */
const SINGLE_ENCODING = new Set(['s3', 's3express', 's3-outposts', 's3-object-lambda'])
export const isS3 = (service: string): boolean => SINGLE_ENCODING.has(service)

export interface CanonicalParts {
  readonly service: string
  /** In lower case, sorted, all of them in the request. */
  readonly signedHeaders: readonly string[]
  readonly payloadHash: string
}

/** Throws for percent-encoding that is not valid. X-Amz-Signature is not part of what is signed. */
export function canonicalRequest(head: RequestHead, { service, signedHeaders, payloadHash }: CanonicalParts): string {
  const [path = '/', query = ''] = splitTarget(head.target)
  const headers = signedHeaders.map(name => `${name}:${canonicalValue(head, name)}\n`).join('')
  return [
    head.method,
    isS3(service) ? encode(decode(path), '/') : encode(normalise(path), '/'),
    canonicalQuery(query),
    headers,
    signedHeaders.join(';'),
    payloadHash,
  ].join('\n')
}

export function splitTarget(target: string): [path: string, query: string] {
  const question = target.indexOf('?')
  return question === -1 ? [target, ''] : [target.slice(0, question), target.slice(question + 1)]
}

/** The parameters of a query in their order, decoded, one character per byte. */
export function queryItems(query: string): { raw: string; name: string; value: string }[] {
  return query
    .split('&')
    .filter(raw => raw !== '')
    .map(raw => {
      const [name, value = ''] = splitOnce(raw.replaceAll('+', ' '), '=')
      return { raw, name: decode(name), value: decode(value) }
    })
}

/** `text` has one character per byte. */
export function encode(text: string, alsoPlain = ''): string {
  let result = ''
  for (const character of text) {
    if (/[A-Za-z0-9._~-]/.test(character) || alsoPlain.includes(character)) result += character
    else result += `%${character.charCodeAt(0).toString(16).toUpperCase().padStart(2, '0')}`
  }
  return result
}

/** Whether the request has this header. Every request has a host, which in HTTP/2 is not among the headers. */
export const hasHeader = (head: RequestHead, name: string): boolean => name === 'host' || valuesOf(head.headers, name).length > 0

function canonicalValue(head: RequestHead, name: string): string {
  // The Host header is written anew from the host that was checked.
  if (name === 'host') return writeAuthority(head.scheme, head.host, head.port)
  return valuesOf(head.headers, name)
    .map(value => value.trim().replaceAll(/\s+/g, ' '))
    .join(',')
}

function canonicalQuery(query: string): string {
  return queryItems(query)
    .filter(({ name }) => name.toLowerCase() !== 'x-amz-signature')
    .map(({ name, value }) => [encode(name), encode(value)] as const)
    .toSorted(([a, x], [b, y]) => compare(a, b) || compare(x, y))
    .map(([name, value]) => `${name}=${value}`)
    .join('&')
}

const compare = (a: string, b: string): number => (a < b ? -1 : a > b ? 1 : 0)

/** Without empty, . and .. segments; a / at the end stays. */
function normalise(path: string): string {
  const segments: string[] = []
  for (const segment of path.split('/')) {
    if (segment === '..') segments.pop()
    else if (segment !== '' && segment !== '.') segments.push(segment)
  }
  return `/${segments.join('/')}${segments.length > 0 && path.endsWith('/') ? '/' : ''}`
}

function decode(text: string): string {
  if (/%(?![0-9A-Fa-f]{2})/.test(text)) throw new Error('invalid percent-encoding')
  return text.replaceAll(/%(..)/g, (_, hex: string) => String.fromCharCode(Number.parseInt(hex, 16)))
}

function splitOnce(text: string, separator: string): [string, string?] {
  const at = text.indexOf(separator)
  return at === -1 ? [text] : [text.slice(0, at), text.slice(at + separator.length)]
}

/** The list with the values of one header replaced, or without it (null), or with it at the end if it was not there. */
export function withHeader(headers: HeaderList, name: string, value: string | null): HeaderList {
  const first = headers.findIndex(([key]) => key.toLowerCase() === name)
  if (first === -1) return value === null ? headers : [...headers, [name, value]]
  return headers.flatMap((header, i) => {
    if (header[0].toLowerCase() !== name) return [header]
    return i === first && value !== null ? [[header[0], value] as const] : []
  })
}
