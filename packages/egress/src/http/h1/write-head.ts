// Writes the head of an HTTP/1.1 request or response. Heads are always written anew, never copied, so that the server reads what was checked here.
import { STATUS_CODES } from 'node:http'
import { HttpError } from '../errors.ts'
import { parseLength } from '../fields.ts'
import type { HeaderList, OutgoingBody, RequestHead, ResponseHead } from '../message.ts'
import { isFieldValue, isTarget, isToken, writeAuthority } from '../syntax.ts'
import { type Framing, isBodyless } from './head.ts'

/** An HTTP proxy that gets plain requests with an absolute URL. */
export interface PlainProxy {
  readonly authorization: string | null
}

/** SECURITY: Host comes from the host that was checked, not from the header that the client sent. */
export function writeRequestHead(head: RequestHead, framing: Framing, proxy: PlainProxy | null): string {
  const authority = writeAuthority(head.scheme, head.host, head.port)
  const target = proxy === null ? head.target : `${head.scheme}://${authority}${head.target === '*' ? '' : head.target}`
  if (!isToken(head.method) || !isTarget(target))
    throw new HttpError('malformed', 'the request line contains a character that cannot be sent')
  const { lines, hasTe } = writeFields(head.headers, framing, authority)
  const connection =
    head.upgrade !== null ? `Connection: Upgrade\r\nUpgrade: ${head.upgrade}\r\n` : hasTe ? 'Connection: TE\r\n' : ''
  const credentials = proxy?.authorization ? `Proxy-Authorization: ${proxy.authorization}\r\n` : ''
  return `${head.method} ${target} HTTP/1.1\r\n${lines}${credentials}${connection}\r\n`
}

export interface ResponseLine {
  readonly version: '1.0' | '1.1'
  readonly closes: boolean
  /** Protocol that the connection changes to after the head. */
  readonly upgrade: string | null
}

export function writeResponseHead(head: ResponseHead, framing: Framing, { version, closes, upgrade }: ResponseLine): string {
  const { lines } = writeFields(head.headers, framing, null)
  const connection = upgrade !== null ? `Connection: Upgrade\r\nUpgrade: ${upgrade}\r\n` : closes ? 'Connection: close\r\n' : ''
  return `HTTP/${version} ${head.status} ${STATUS_CODES[head.status] ?? ''}\r\n${lines}${connection}\r\n`
}

/** Trailers, with the empty line that ends them. */
export function writeTrailers(trailers: HeaderList): string {
  let text = ''
  for (const [name, value] of trailers) text += writeLine(name, value)
  return `${text}\r\n`
}

/** How a request is framed: by its Content-Length if it has one, else in chunks. */
export function requestFraming({ headers, method }: RequestHead, body: OutgoingBody): Framing {
  if (body === null) return hasLength(headers) || expectsBody(method) ? { kind: 'length', length: 0 } : { kind: 'none' }
  return bodyFraming(headers, body)
}

/** `none` leaves a Content-Length that describes a body which is not sent. */
export function responseFraming({ status, headers }: ResponseHead, body: OutgoingBody, method: string, version: string): Framing {
  if (isBodyless(method, status)) return { kind: 'none' }
  if (body === null) return { kind: 'length', length: 0 }
  const framing = bodyFraming(headers, body)
  return framing.kind === 'chunked' && version === '1.0' ? { kind: 'until-close' } : framing
}

function bodyFraming(headers: HeaderList, body: Exclude<OutgoingBody, null>): Framing {
  if (body instanceof Uint8Array) return { kind: 'length', length: body.length }
  for (const [name, value] of headers)
    if (name.toLowerCase() === 'content-length') return { kind: 'length', length: parseLength(value) }
  return { kind: 'chunked' }
}

const hasLength = (headers: HeaderList): boolean => headers.some(([name]) => name.toLowerCase() === 'content-length')
const expectsBody = (method: string): boolean => method === 'POST' || method === 'PUT' || method === 'PATCH'

/** Content-Length and Host stay at the place where the sender had them. */
function writeFields(headers: HeaderList, framing: Framing, host: string | null): { lines: string; hasTe: boolean } {
  let lines = ''
  let hasTe = false
  let needsHost = host !== null
  let needsLength = framing.kind === 'length'
  for (const [name, value] of headers) {
    switch (name.length === 4 || name.length === 14 || name.length === 2 ? name.toLowerCase() : '') {
      case 'host':
        if (needsHost) lines += `${name}: ${host}\r\n`
        needsHost = false
        continue
      case 'content-length':
        if (framing.kind === 'length' && needsLength) lines += `${name}: ${framing.length}\r\n`
        else if (framing.kind === 'none') lines += writeLine(name, value)
        needsLength = false
        continue
      case 'te':
        hasTe = true
        break
      default:
    }
    lines += writeLine(name, value)
  }
  if (framing.kind === 'length' && needsLength) lines += `Content-Length: ${framing.length}\r\n`
  if (framing.kind === 'chunked') lines += 'Transfer-Encoding: chunked\r\n'
  return { lines: needsHost ? `Host: ${host}\r\n${lines}` : lines, hasTe }
}

const CONNECTION_HEADERS = new Set(['connection', 'transfer-encoding', 'upgrade', 'keep-alive'])

/** SECURITY: a value with a line end, such as a secret that was stored with one, would end the header and begin another. */
function writeLine(name: string, value: string): string {
  if (!isToken(name) || !isFieldValue(value))
    throw new HttpError('malformed', 'a header contains a character that cannot be sent')
  if (CONNECTION_HEADERS.has(name.toLowerCase()))
    throw new HttpError('malformed', `header ${name} is written by the connection only`)
  return `${name}: ${value}\r\n`
}
