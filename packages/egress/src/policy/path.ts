// The path of a request target, decoded for comparison with rules; paths that servers read in different ways are refused.

export type PathResult = { readonly path: string } | { readonly reason: string }

/** A path that is still encoded after so many decodings is refused. */
const MAX_DECODINGS = 4
const ESCAPE = /%([0-9a-f]{2})/gi
/** A segment . or .. at any place; some servers drop what follows a semicolon, a space, ? or # in a segment. */
const DOT_SEGMENT = /(^|\/)\.{1,2}([;?#\s][^/]*)?(\/|$)/

/**
 * The path without the query, percent-decoded once. The target is in origin form, with one character per byte; * stays as it is.
 *
 * SECURITY: a rule for /public/* must not allow what a server resolves to /private. So a path is refused if it has a dot segment, backslash
 * or NUL in any form that a server may decode it to.
 */
export function readPath(target: string): PathResult {
  if (target === '*') return { path: target }
  if (!target.startsWith('/')) return { reason: 'the request target is not a path' }
  if (!isPrintable(target)) return { reason: 'the request target has a control character, a space or #' }
  const query = target.indexOf('?')
  const raw = query === -1 ? target : target.slice(0, query)
  const path = decodeUtf8(raw)
  if (path === null) return { reason: 'the path has invalid percent-encoding' }
  let form = raw
  for (let round = 0; round <= MAX_DECODINGS; round++) {
    if (hasControl(form) || DOT_SEGMENT.test(form)) {
      return { reason: 'the path has a . or .. segment, a backslash or a control character' }
    }
    const next = decodeBytes(form)
    if (next === form) return { path }
    form = next
  }
  return { reason: 'the path is percent-encoded too many times' }
}

/** A line break could end the request line of a careless server; a backslash is a slash for some. */
function hasControl(text: string): boolean {
  for (let i = 0; i < text.length; i++) {
    const code = text.charCodeAt(i)
    if (code < 0x20 || code === 0x7f || code === 0x5c) return true
  }
  return false
}

function isPrintable(target: string): boolean {
  for (let i = 0; i < target.length; i++) {
    const code = target.charCodeAt(i)
    if (code <= 0x20 || code === 0x7f || code > 0xff || code === 0x23) return false
  }
  return true
}

/** SECURITY: strict UTF-8, so that overlong forms of . and / are refused. */
function decodeUtf8(raw: string): string | null {
  if (/%(?![0-9a-f]{2})/i.test(raw)) return null
  try {
    return new TextDecoder('utf-8', { fatal: true, ignoreBOM: true }).decode(Buffer.from(decodeBytes(raw), 'latin1'))
  } catch {
    return null // not UTF-8
  }
}

function decodeBytes(text: string): string {
  return text.includes('%') ? text.replaceAll(ESCAPE, (_, hex: string) => String.fromCharCode(Number.parseInt(hex, 16))) : text
}
