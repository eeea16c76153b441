// The characters that HTTP permits in methods, header names, header values and request targets.

/** Bits of the table: what a character may be part of. A token is that of RFC 9110, 5.6.2. */
const TOKEN = 1
const VALUE = 2
const TARGET = 4
const CLASSES = classes()

export const isTokenCode = (code: number): boolean => ((CLASSES[code] ?? 0) & TOKEN) !== 0
export const isValueCode = (code: number): boolean => ((CLASSES[code] ?? 0) & VALUE) !== 0

export const isToken = (text: string): boolean => text.length > 0 && consistsOf(text, TOKEN)

/** SECURITY: false for CR, LF and NUL, and for code units above 255, which become other bytes, CR and LF among them, when they are written. */
export const isFieldValue = (text: string): boolean => consistsOf(text, VALUE)

/** Visible ASCII without #, which is no part of a request. SECURITY: a space would end the target, and start another request line. */
export const isTarget = (text: string): boolean => text.length > 0 && consistsOf(text, TARGET)

const HOST_TEXT = /^(?:\[[0-9A-Fa-f:.]{2,45}\]|[^\s/?#@:[\]\\]{1,255})$/
const PORT_TEXT = /^[0-9]{1,5}$/

/** Host as written, brackets included, and the port if one is written; null if this is no authority. User information is refused. */
export function parseAuthority(text: string): { host: string; port: number | null } | null {
  const colon = text.lastIndexOf(':')
  const hasPort = colon > text.lastIndexOf(']')
  const host = hasPort ? text.slice(0, colon) : text
  if (!HOST_TEXT.test(host)) return null
  if (!hasPort) return { host, port: null }
  const digits = text.slice(colon + 1)
  const port = Number(digits)
  return PORT_TEXT.test(digits) && port >= 1 && port <= 65535 ? { host, port } : null
}

/** How a host and port are written in a Host header. */
export function writeAuthority(scheme: 'http' | 'https', host: string, port: number): string {
  const name = host.includes(':') ? `[${host}]` : host
  return port === (scheme === 'https' ? 443 : 80) ? name : `${name}:${port}`
}

function consistsOf(text: string, mask: number): boolean {
  for (let at = 0; at < text.length; at += 1) {
    if (((CLASSES[text.charCodeAt(at)] ?? 0) & mask) === 0) return false
  }
  return true
}

function classes(): Uint8Array {
  const table = new Uint8Array(256)
  for (let code = 0; code < 256; code += 1) {
    const character = String.fromCharCode(code)
    const isVisible = code > 0x20 && code < 0x7f
    if (/[!#$%&'*+\-.^_`|~0-9A-Za-z]/.test(character)) table[code] = TOKEN
    if (isVisible || code === 0x20 || code === 0x09 || code >= 0x80) table[code] = (table[code] ?? 0) | VALUE
    if (isVisible && character !== '#') table[code] = (table[code] ?? 0) | TARGET
  }
  return table
}
