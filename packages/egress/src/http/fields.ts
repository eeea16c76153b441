// The header section of a message: its lines, and which of them concern the connection and not the message.
import { HttpError } from './errors.ts'
import type { HeaderList } from './message.ts'
import { isTokenCode, isValueCode } from './syntax.ts'

export const MAX_HEADERS = 200

const CR = 13
const LF = 10
const COLON = 58
const SPACE = 32
const TAB = 9

const STRICT = /^(?:host|content-length|transfer-encoding)$/i

/** A header section, sorted: what travels on, and what is about this connection. */
export interface Fields {
  readonly headers: HeaderList
  readonly host: string | null
  /** Null if there is none. */
  readonly contentLength: number | null
  readonly isChunked: boolean
  /** Members of the Connection headers, in lower case. */
  readonly connection: readonly string[]
  readonly upgrade: string | null
  readonly expect: string | null
  readonly keepAlive: string | null
}

/** The lines from `at` on; the last one ends with CRLF too. Folded lines, bare CR or LF, and space before a colon are refused. */
export function parseFieldLines(text: string, start: number): [name: string, value: string][] {
  const lines: [string, string][] = []
  let at = start
  while (at < text.length) {
    const nameStart = at
    while (isTokenCode(text.charCodeAt(at))) at += 1
    if (at === nameStart || text.charCodeAt(at) !== COLON) throw new HttpError('malformed', 'a header has no valid name')
    const name = text.slice(nameStart, at)
    at += 1
    while (isBlank(text.charCodeAt(at))) at += 1
    const valueStart = at
    while (isValueCode(text.charCodeAt(at))) at += 1
    if (text.charCodeAt(at) !== CR || text.charCodeAt(at + 1) !== LF) {
      throw new HttpError('malformed', `header ${name} contains a control character`)
    }
    let valueEnd = at
    while (valueEnd > valueStart && isBlank(text.charCodeAt(valueEnd - 1))) valueEnd -= 1
    // SECURITY: parsers do not agree on tabs around the values that decide where a message ends.
    if (STRICT.test(name) && text.slice(nameStart, at).includes('\t')) throw new HttpError('malformed', `a tab in header ${name}`)
    lines.push([name, text.slice(valueStart, valueEnd)])
    if (lines.length > MAX_HEADERS) throw new HttpError('head_too_large', `more than ${MAX_HEADERS} headers`)
    at += 2
  }
  return lines
}

/** True if a line from `start` on ends without CR: such a section never gets the end that is waited for. */
export function hasBareLineFeed(text: string, start: number): boolean {
  for (let at = text.indexOf('\n', start); at !== -1; at = text.indexOf('\n', at + 1))
    if (text.charCodeAt(at - 1) !== CR) return true
  return false
}

/** SECURITY: whatever two programs could understand differently is refused here: two lengths, a length and chunks, two hosts. */
export function sortFields(lines: HeaderList, role: 'request' | 'response'): Fields {
  const headers: (readonly [string, string])[] = []
  const connection: string[] = []
  let host: string | null = null
  let contentLength: number | null = null
  let isChunked = false
  let upgrade: string | null = null
  let expect: string | null = null
  let keepAlive: string | null = null
  for (const line of lines) {
    const name = line[0].toLowerCase()
    const value = line[1]
    switch (name) {
      case 'host':
        if (host !== null) throw new HttpError('malformed', 'more than one Host header')
        host = value
        break
      case 'content-length':
        if (contentLength !== null) throw new HttpError('malformed', 'more than one Content-Length')
        contentLength = parseLength(value)
        break
      case 'transfer-encoding':
        if (isChunked || value.toLowerCase() !== 'chunked')
          throw new HttpError('malformed', 'Transfer-Encoding is not exactly chunked')
        isChunked = true
        continue
      case 'connection':
        for (const member of value.split(',')) connection.push(member.trim().toLowerCase())
        continue
      case 'upgrade':
        upgrade = upgrade === null ? value.toLowerCase() : ''
        continue
      case 'expect':
        expect = expect === null ? value.toLowerCase() : ''
        break
      case 'keep-alive':
        keepAlive = value
        continue
      case 'te':
        if (value.split(',').some(member => member.trim().toLowerCase() === 'trailers')) headers.push([line[0], 'trailers'])
        continue
      case 'http2-settings':
        continue
      case 'alt-svc':
        // SECURITY: it would send the client to QUIC, which cannot pass, or to another host.
        if (role === 'response') continue
        break
      default:
        if (name.startsWith('proxy-')) continue
    }
    headers.push(line)
  }
  if (isChunked && contentLength !== null) throw new HttpError('malformed', 'both Content-Length and Transfer-Encoding')
  return { headers: unlisted(headers, connection), host, contentLength, isChunked, connection, upgrade, expect, keepAlive }
}

const FRAMING = new Set([
  'content-length',
  'transfer-encoding',
  'host',
  'connection',
  'trailer',
  'upgrade',
  'te',
  'expect',
  'keep-alive',
])

/** Trailers that may travel on. SECURITY: one that describes the framing or the route could be taken for a header. */
export const sortTrailers = (lines: HeaderList): HeaderList =>
  lines.filter(([name]) => !FRAMING.has(name.toLowerCase()) && !name.toLowerCase().startsWith('proxy-'))

/** Members of Connection that need no search among the headers, and Host and Content-Length, which are not the sender's to drop. */
const NOT_DROPPED = new Set(['', 'close', 'keep-alive', 'upgrade', 'te', 'http2-settings', 'host', 'content-length'])

function unlisted(headers: HeaderList, connection: readonly string[]): HeaderList {
  const dropped = connection.filter(name => !NOT_DROPPED.has(name))
  return dropped.length === 0 ? headers : headers.filter(([name]) => !dropped.includes(name.toLowerCase()))
}

/** A Content-Length. */
export function parseLength(value: string): number {
  if (!/^[0-9]{1,15}$/.test(value)) throw new HttpError('malformed', 'Content-Length is not a number')
  return Number(value)
}

const isBlank = (code: number): boolean => code === SPACE || code === TAB
