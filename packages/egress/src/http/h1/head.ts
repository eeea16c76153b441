// Reads the head of an HTTP/1 request or response. Everything that could be understood in two ways is refused.
import { HttpError } from '../errors.ts'
import { type Fields, parseFieldLines, sortFields } from '../fields.ts'
import { type RequestHead, type ResponseHead, without } from '../message.ts'
import { isTarget, isToken, parseAuthority } from '../syntax.ts'

/** Longest head, from its first line to the empty one. */
export const MAX_HEAD_BYTES = 64 * 1024

/** How the bytes of a body are told from what follows. */
export type Framing =
  | { readonly kind: 'none' }
  | { readonly kind: 'length'; readonly length: number }
  | { readonly kind: 'chunked' }
  | { readonly kind: 'until-close' }

const OTHER_HOST = 'the Host header is not the host of the URL'
const NONE: Framing = { kind: 'none' }
const CHUNKED: Framing = { kind: 'chunked' }

/** What a server knows about its connection before the first request. */
export interface Origin {
  readonly scheme: 'http' | 'https'
  /** Port that the client has dialled. */
  readonly port: number
  /** Host that the client has dialled, as `normaliseHost` returns it; requests for another one are refused. Null if any will do. */
  readonly host: string | null
  /** True for a proxy: a request names its host and port itself, and CONNECT is possible. */
  readonly isProxy: boolean
  /** Gets a host as it was written, brackets of an IPv6 address included. Null if it is not valid. */
  normaliseHost(host: string): string | null
}

export interface ParsedRequest {
  readonly head: RequestHead
  readonly framing: Framing
  readonly isPersistent: boolean
  readonly expectsContinue: boolean
}

export interface ParsedResponse {
  readonly head: ResponseHead
  readonly framing: Framing
  readonly isPersistent: boolean
  readonly upgrade: string | null
  /** From the Keep-Alive header: how long the server keeps an idle connection. */
  readonly idleSeconds: number | null
}

/** `text` is the head as latin1, without the empty line at its end. */
export function parseRequestHead(text: string, origin: Origin): ParsedRequest {
  const lineEnd = text.indexOf('\r\n')
  const [method = '', written = '', version, ...rest] = text.slice(0, lineEnd).split(' ')
  if (!isToken(method) || method.length > 64) throw new HttpError('malformed', 'the request has no valid method')
  if (!isTarget(written)) throw new HttpError('malformed', 'the request has no valid target')
  if (rest.length > 0 || (version !== 'HTTP/1.1' && version !== 'HTTP/1.0'))
    throw new HttpError('malformed', 'this is no HTTP/1.1 request')
  const fields = sortFields(parseFieldLines(text, lineEnd + 2), 'request')
  const isOld = version === 'HTTP/1.0'
  if (fields.host === null && !isOld) throw new HttpError('malformed', 'the request has no Host header')
  if (isOld && fields.isChunked) throw new HttpError('malformed', 'an HTTP/1.0 request cannot have chunks')
  const framing = requestFraming(fields)
  if (method === 'CONNECT' && framing.kind !== 'none') throw new HttpError('malformed', 'CONNECT cannot have a body')
  const upgrade = upgradeOf(fields, method, isOld, framing)
  const place = locate(method, written, fields.host, origin)
  return {
    head: { version: isOld ? '1.0' : '1.1', method, ...place, headers: fields.headers, upgrade },
    framing,
    isPersistent: !isOld && !fields.connection.includes('close'),
    expectsContinue: expectsContinue(fields, isOld) && framing.kind !== 'none',
  }
}

/** `text` is the head as latin1, without the empty line at its end. The body depends on the method of the request. */
export function parseResponseHead(text: string, requestMethod: string): ParsedResponse {
  const lineEnd = text.indexOf('\r\n')
  const line = text.slice(0, lineEnd)
  const match = /^HTTP\/1\.([01]) ([1-9][0-9]{2})(?: [\t\x20-\x7e\x80-\xff]*)?$/.exec(line)
  if (match === null) throw new HttpError('malformed', 'this is no HTTP/1.1 response')
  const isOld = match[1] === '0'
  const status = Number(match[2])
  const fields = sortFields(parseFieldLines(text, lineEnd + 2), 'response')
  if (isOld && fields.isChunked) throw new HttpError('malformed', 'an HTTP/1.0 response cannot have chunks')
  const framing = responseFraming(fields, requestMethod, status)
  return {
    head: { status, headers: status < 200 || status === 204 ? without(fields.headers, 'content-length') : fields.headers },
    framing,
    isPersistent: !isOld && !fields.connection.includes('close') && framing.kind !== 'until-close',
    upgrade: fields.connection.includes('upgrade') ? fields.upgrade : null,
    idleSeconds: idleSeconds(fields.keepAlive),
  }
}

/** True if a response to this method with this status never has a body, whatever its headers say. */
export const isBodyless = (method: string, status: number): boolean =>
  method === 'HEAD' || status < 200 || status === 204 || status === 304

function requestFraming({ isChunked, contentLength }: Fields): Framing {
  if (isChunked) return CHUNKED
  return contentLength === null || contentLength === 0 ? NONE : { kind: 'length', length: contentLength }
}

function responseFraming({ isChunked, contentLength }: Fields, method: string, status: number): Framing {
  if (isBodyless(method, status)) return NONE
  if (isChunked) return CHUNKED
  if (contentLength === null) return { kind: 'until-close' }
  return contentLength === 0 ? NONE : { kind: 'length', length: contentLength }
}

function upgradeOf({ connection, upgrade }: Fields, method: string, isOld: boolean, framing: Framing): 'websocket' | null {
  if (upgrade !== 'websocket' || !connection.includes('upgrade')) return null
  // SECURITY: after an upgrade the connection carries raw bytes; a body could be taken for a part of them.
  if (method !== 'GET' || isOld || framing.kind !== 'none')
    throw new HttpError('malformed', 'this request cannot be upgraded to a WebSocket')
  return 'websocket'
}

function expectsContinue({ expect }: Fields, isOld: boolean): boolean {
  if (expect === null || isOld) return false
  if (expect !== '100-continue') throw new HttpError('expectation', 'the only possible Expect is 100-continue')
  return true
}

interface Place {
  readonly scheme: 'http' | 'https'
  readonly host: string
  readonly port: number
  readonly target: string
}

function locate(method: string, written: string, hostHeader: string | null, origin: Origin): Place {
  const { scheme, isProxy } = origin
  const inHeader = hostHeader === null ? null : readAuthority(hostHeader, origin)
  if (method === 'CONNECT') {
    if (!isProxy) throw new HttpError('unsupported', 'CONNECT is possible at the proxy port only')
    const { host, port } = readAuthority(written, origin)
    if (port === null) throw new HttpError('malformed', 'CONNECT needs a port')
    if (inHeader !== null && (inHeader.host !== host || (inHeader.port ?? port) !== port))
      throw new HttpError('malformed', OTHER_HOST)
    return { scheme, host, port, target: '' }
  }
  const absolute = written.startsWith('/') || written === '*' ? null : splitAbsolute(written, scheme)
  if (written === '*' && method !== 'OPTIONS') throw new HttpError('malformed', 'the target * is for OPTIONS only')
  const named = absolute === null ? inHeader : readAuthority(absolute.authority, origin)
  if (isProxy && absolute === null) throw new HttpError('malformed', 'a request to a proxy needs an absolute URL')
  if (named === null) {
    if (origin.host === null) throw new HttpError('malformed', 'the request does not name its host')
    return { scheme, host: origin.host, port: origin.port, target: written }
  }
  const port = named.port ?? (isProxy ? 80 : origin.port)
  // SECURITY: the host that the policy decides on and the one that the server reads in the Host header must be the same.
  if (inHeader !== null && (inHeader.host !== named.host || (inHeader.port ?? (isProxy ? 80 : origin.port)) !== port)) {
    throw new HttpError('malformed', OTHER_HOST)
  }
  checkDirection(named.host, port, origin)
  return { scheme, host: named.host, port, target: absolute === null ? written : absolute.target }
}

/** Throws unless a request for this host and port may come over this connection. */
export function checkDirection(host: string, port: number, origin: Origin): void {
  if (origin.isProxy) return
  const isHere = port === origin.port && (origin.host === null || origin.host === host)
  if (!isHere) throw new HttpError('misdirected', `this connection is not for ${host}:${port}`)
}

/** Host and port of a Host header, an :authority, or a URL. */
export function readAuthority(text: string, origin: Origin): { host: string; port: number | null } {
  const written = parseAuthority(text)
  const host = written === null ? null : origin.normaliseHost(written.host)
  if (written === null || host === null) throw new HttpError('malformed', 'the request names no valid host')
  return { host, port: written.port }
}

function splitAbsolute(url: string, scheme: string): { authority: string; target: string } {
  const prefix = `${scheme}://`
  if (url.slice(0, prefix.length).toLowerCase() !== prefix) throw new HttpError('malformed', 'the request has no valid target')
  const rest = url.slice(prefix.length)
  const end = rest.search(/[/?]/)
  if (end === -1) return { authority: rest, target: '/' }
  return { authority: rest.slice(0, end), target: rest[end] === '?' ? `/${rest.slice(end)}` : rest.slice(end) }
}

function idleSeconds(keepAlive: string | null): number | null {
  const match = /(?:^|[,\s])timeout=([0-9]{1,6})/i.exec(keepAlive ?? '')
  return match === null ? null : Number(match[1])
}
