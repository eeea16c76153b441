// IP addresses as numbers: strict readers of both families, and the one text form that everything compares.

export interface IpAddress {
  readonly bits: 32 | 128
  readonly value: bigint
}

const MAPPED = 0xffffn
const LOW_32 = 0xffff_ffffn

/** An IPv4 address in dotted decimal, or an IPv6 address without brackets and zone. An IPv4-mapped IPv6 address is read as the IPv4 address. */
export function parseAddress(text: string): IpAddress | null {
  if (!text.includes(':')) {
    const value = parseIpv4(text)
    return value === null ? null : { bits: 32, value }
  }
  const value = parseIpv6(text)
  if (value === null) return null
  return value >> 32n === MAPPED ? { bits: 32, value: value & LOW_32 } : { bits: 128, value }
}

/** Dotted decimal, or the form of RFC 5952. */
export function formatAddress({ bits, value }: IpAddress): string {
  return bits === 32 ? formatIpv4(value) : formatIpv6(value)
}

/** SECURITY: dotted decimal without leading zeros alone. Programs disagree about 010.0.0.1, 0x7f.1, 127.1 and 2130706433. */
function parseIpv4(text: string): bigint | null {
  const octets = text.split('.', 5)
  if (octets.length !== 4 || !octets.every(octet => /^(0|[1-9]\d{0,2})$/.test(octet) && Number(octet) <= 255)) return null
  return octets.reduce((value, octet) => value * 256n + BigInt(octet), 0n)
}

function parseIpv6(text: string): bigint | null {
  if (text.length > 45) return null
  const withGroups = replaceDottedEnd(text)
  if (withGroups === null) return null
  const halves = withGroups.split('::')
  if (halves.length > 2) return null
  const [head = [], tail = []] = halves.map(half => (half === '' ? [] : half.split(':')))
  const missing = 8 - head.length - tail.length
  // "::" stands for at least one group.
  if (halves.length === 1 ? missing !== 0 : missing < 1) return null
  const groups = [...head, ...Array.from({ length: missing }, () => '0'), ...tail]
  if (!groups.every(group => /^[0-9a-f]{1,4}$/i.test(group))) return null
  return groups.reduce((value, group) => value * 0x1_0000n + BigInt(`0x${group}`), 0n)
}

/** Turns the last 32 bits from dotted decimal into two groups. */
function replaceDottedEnd(text: string): string | null {
  if (!text.includes('.')) return text
  const start = text.lastIndexOf(':') + 1
  const value = parseIpv4(text.slice(start))
  if (value === null) return null
  return `${text.slice(0, start)}${(value >> 16n).toString(16)}:${(value & MAPPED).toString(16)}`
}

function formatIpv4(value: bigint): string {
  return [24n, 16n, 8n, 0n].map(shift => (value >> shift) & 0xffn).join('.')
}

function formatIpv6(value: bigint): string {
  const groups = Array.from({ length: 8 }, (_, i) => ((value >> BigInt(112 - 16 * i)) & 0xffffn).toString(16))
  const zeros = longestZeros(groups)
  if (zeros.length < 2) return groups.join(':')
  return `${groups.slice(0, zeros.start).join(':')}::${groups.slice(zeros.start + zeros.length).join(':')}`
}

/** The first of the longest runs of zero groups. */
function longestZeros(groups: readonly string[]): { start: number; length: number } {
  let best = { start: 0, length: 0 }
  let start = 0
  for (const [i, group] of groups.entries()) {
    if (group !== '0') start = i + 1
    else if (i + 1 - start > best.length) best = { start, length: i + 1 - start }
  }
  return best
}
