// Headers of requests whose replies are redacted, and of those replies.
import type { HeaderList } from '../http/message.ts'
import type { SessionSecret } from '../session.ts'
import type { Redactor } from './redact.ts'

const READABLE = new Set(['gzip', 'x-gzip', 'deflate', 'identity'])

/**
 * Asks for a reply that can be redacted. `secrets` are those of the redactor.
 *
 * SECURITY: a range of a page that returns a value could begin in the middle of it, so ranges are not asked for. A secret of AWS is never part
 * of a stored object, so its ranges remain: clients of S3 need them to download in parts. Compressed WebSocket messages cannot be searched.
 */
export function requestHeadersForRedaction(secrets: readonly SessionSecret[], headers: HeaderList): HeaderList {
  const removed = new Set(['sec-websocket-extensions'])
  if (secrets.some(({ kind }) => kind === 'masked')) for (const name of ['range', 'if-range']) removed.add(name)
  return narrowAcceptEncoding(headers.filter(([name]) => !removed.has(name.toLowerCase())))
}

/** Keeps gzip, deflate and identity. One header of the name remains, or is added: without it a server may use any encoding. */
export function narrowAcceptEncoding(headers: HeaderList): HeaderList {
  const isAccept = ([name]: readonly [string, string]) => name.toLowerCase() === 'accept-encoding'
  const codings = headers
    .filter(isAccept)
    .flatMap(([, value]) => value.split(','))
    .map(coding => coding.trim())
    .filter(coding => READABLE.has(coding.split(';', 1)[0]?.trim().toLowerCase() ?? ''))
  const isUsable = codings.some(coding => !/;\s*q\s*=\s*0(\.0*)?\s*$/i.test(coding))
  const value = isUsable ? codings.join(', ') : 'identity'
  const first = headers.findIndex(isAccept)
  if (first === -1) return [...headers, ['accept-encoding', value]]
  return headers.flatMap((header, i) => (i === first ? [[header[0], value] as const] : isAccept(header) ? [] : [header]))
}

const BODY_DIGESTS = /^(digest|content-digest|repr-digest|content-md5|x-amz-checksum-.*|x-goog-hash)$/

/**
 * Headers of a reply whose body went through the redactor: digests of other bytes are removed, with the length and the encoding if they changed.
 * ETag stays: it is compared with itself only.
 */
export function replyHeadersAfterRedaction(redactor: Redactor, headers: HeaderList): HeaderList {
  const wasEncoded = headers.some(
    ([name, value]) => name.toLowerCase() === 'content-encoding' && !/^\s*(identity\s*)?$/i.test(value),
  )
  return redactor.redactHeaders(headers).filter(([name]) => {
    const key = name.toLowerCase()
    if (key === 'content-encoding') return false
    if (key === 'content-length') return !wasEncoded && !redactor.changesLength
    return !BODY_DIGESTS.test(key)
  })
}
