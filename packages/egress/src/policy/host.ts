// Host names and IP addresses as a sandbox writes them, in the one form that rules are compared with.
import { formatAddress, parseAddress } from './addresses/ip-address.ts'

const MAX_NAME = 253
const MAX_LABEL = 63

/**
 * A host from SNI, Host, :authority, CONNECT, SOCKS, a URL or a DNS question: in lower case, without trailing dot and brackets; null if it is
 * not acceptable. Idempotent.
 *
 * SECURITY: two programs that read a host differently make a rule useless: "evil.com\0.good.com" matches *.good.com here and is evil.com for a
 * resolver. So everything but plain ASCII names and the usual form of an address is refused, never repaired.
 */
export function normaliseHost(text: string): string | null {
  if (text.length > MAX_NAME + 1) return null
  if (text.startsWith('[')) return text.endsWith(']') && text.includes(':') ? normaliseAddress(text.slice(1, -1)) : null
  if (text.includes(':')) return normaliseAddress(text)
  const address = normaliseAddress(text)
  if (address !== null) return address
  const name = text.endsWith('.') ? text.slice(0, -1) : text
  return isName(name) ? name.toLowerCase() : null
}

/** True for a normalised host that is an address. A name never is: its last label is not a number. */
export function isAddress(host: string): boolean {
  return host.includes(':') || /\.\d+$/.test(host)
}

/** The host as it is written before a port: an IPv6 address has brackets. */
export function bracketed(host: string): string {
  return host.includes(':') ? `[${host}]` : host
}

function normaliseAddress(text: string): string | null {
  const address = parseAddress(text)
  return address === null ? null : formatAddress(address)
}

function isName(name: string): boolean {
  if (name.length === 0 || name.length > MAX_NAME) return false
  const labels = name.split('.')
  // SECURITY: checked before the conversion to lower case, which turns the Kelvin sign U+212A into an ASCII k.
  if (!labels.every(label => label.length <= MAX_LABEL && /^[A-Za-z0-9_-]+$/.test(label))) return false
  // SECURITY: resolvers read a name that ends in a number as an IPv4 address: 127.1, 017700000001, 0x7f.0x1.
  return !/^(\d+|0[xX][0-9A-Fa-f]*)$/.test(labels.at(-1) ?? '')
}
