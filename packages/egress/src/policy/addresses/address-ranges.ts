// Address ranges that are not public, and what it takes to open them.
import { type IpAddress, parseAddress } from './ip-address.ts'

export interface AddressRange {
  /** How `private` of a policy opens it: by a host that resolves to it, or by the literal address alone. */
  readonly opensBy: 'name' | 'literal'
  readonly about: string
}

interface Row extends AddressRange {
  readonly bits: 32 | 128
  readonly prefix: bigint
  readonly hostBits: bigint
}

// SECURITY: metadata services hand out credentials of the machine, and a name can be made to resolve to any address. So no name opens them.
const METADATA = 'a cloud metadata address'
const RESERVED = 'a reserved address'

/** The first row that contains the address decides. Documentation ranges count as public. */
const ROWS: readonly Row[] = [
  row('168.63.129.16/32', 'literal', METADATA), // Azure
  row('100.100.100.200/32', 'literal', METADATA), // Alibaba Cloud
  row('192.0.0.192/32', 'literal', METADATA), // Oracle Cloud
  row('169.254.0.0/16', 'literal', 'a link-local or metadata address'),
  row('0.0.0.0/8', 'literal', 'an unspecified address'),
  row('127.0.0.0/8', 'name', 'a loopback address'),
  row('10.0.0.0/8', 'name', 'a private address'),
  row('172.16.0.0/12', 'name', 'a private address'),
  row('192.168.0.0/16', 'name', 'a private address'),
  row('100.64.0.0/10', 'name', 'a private address of a carrier'),
  row('198.18.0.0/15', 'name', 'an address for benchmarks'),
  row('192.0.0.0/24', 'literal', RESERVED),
  row('192.88.99.0/24', 'literal', RESERVED),
  row('224.0.0.0/4', 'literal', 'a multicast address'),
  row('255.255.255.255/32', 'literal', 'the broadcast address'),
  row('240.0.0.0/4', 'literal', RESERVED),

  row('::/128', 'literal', 'an unspecified address'),
  row('::1/128', 'name', 'a loopback address'),
  row('fd00:ec2::/32', 'literal', METADATA), // Amazon
  row('fd20:ce::/32', 'literal', METADATA), // Google Cloud
  row('fd00:c1::/32', 'literal', METADATA), // Oracle Cloud
  row('fd00:42::42/128', 'literal', METADATA), // Scaleway
  row('fc00::/7', 'name', 'a private address'),
  row('fec0::/10', 'name', 'a private address'),
  row('fe80::/10', 'literal', 'a link-local address'),
  row('ff00::/8', 'literal', 'a multicast address'),
  row('64:ff9b:1::/48', 'literal', 'an address of a local NAT64 translator'),
  row('2001::/23', 'literal', RESERVED),
]

const GLOBAL_UNICAST = row('2000::/3', 'literal', '')
const LOW_32 = 0xffff_ffffn

/** Forms of IPv6 that have IPv4 addresses inside, and where. */
const EMBEDDINGS: readonly { range: Row; addresses: (value: bigint) => bigint[] }[] = [
  { range: row('::/96', 'literal', 'IPv4-compatible'), addresses: value => [value & LOW_32] },
  { range: row('::ffff:0:0:0/96', 'literal', 'IPv4-translated'), addresses: value => [value & LOW_32] },
  { range: row('64:ff9b::/96', 'literal', 'NAT64'), addresses: value => [value & LOW_32] },
  { range: row('2002::/16', 'literal', '6to4'), addresses: value => [(value >> 80n) & LOW_32] },
  // The server, and the client with inverted bits.
  { range: row('2001::/32', 'literal', 'Teredo'), addresses: value => [(value >> 64n) & LOW_32, (value & LOW_32) ^ LOW_32] },
]

/** The range that makes an address not public; null for a public address. */
export function nonPublicRange(address: IpAddress): AddressRange | null {
  const { bits, value } = address
  const isSingle = bits === 128 && (value === 0n || value === 1n)
  const embedding = isSingle ? undefined : EMBEDDINGS.find(({ range }) => contains(range, address))
  if (embedding !== undefined) {
    const inside = embedding.addresses(value).map(inner => nonPublicRange({ bits: 32, value: inner }))
    return inside.find(range => range?.opensBy === 'literal') ?? inside.find(range => range !== null) ?? null
  }
  const found = ROWS.find(candidate => contains(candidate, address))
  if (found !== undefined) return found
  // SECURITY: IPv6 outside the global unicast range has no public servers; what is assigned there later is refused until it has a row.
  return bits === 128 && !contains(GLOBAL_UNICAST, address) ? { opensBy: 'literal', about: RESERVED } : null
}

function contains({ bits, prefix, hostBits }: Row, address: IpAddress): boolean {
  return address.bits === bits && address.value >> hostBits === prefix
}

function row(cidr: string, opensBy: Row['opensBy'], about: string): Row {
  const [text = '', length] = cidr.split('/')
  const address = parseAddress(text)
  if (address === null) throw new Error(`invalid range ${cidr}`)
  const hostBits = BigInt(address.bits - Number(length))
  return { bits: address.bits, prefix: address.value >> hostBits, hostBits, opensBy, about }
}
