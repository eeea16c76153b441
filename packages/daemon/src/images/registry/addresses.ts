// Decides which addresses the daemon may connect to for a pull.
// SECURITY: the caller of a pull chooses the host, and a registry chooses its redirects. Cloud metadata services on link-local addresses hand out
// credentials, so the daemon never connects there; and a public registry cannot redirect the daemon into its private network.
import { lookup } from 'node:dns'
import { BlockList, isIP, type LookupFunction } from 'node:net'

const NEVER = blockList(
  ['0.0.0.0/8', '169.254.0.0/16', '224.0.0.0/4', '240.0.0.0/4', '100.100.100.200/32', '168.63.129.16/32', '192.0.0.192/32'],
  ['::/128', 'fe80::/10', 'fec0::/10', 'ff00::/8', 'fd00:ec2::254/128'],
)
const PRIVATE = blockList(
  ['10.0.0.0/8', '127.0.0.0/8', '172.16.0.0/12', '192.168.0.0/16', '100.64.0.0/10'],
  ['::1/128', 'fc00::/7'],
)

/** IPv6 addresses that embed an IPv4 address: mapped, NAT64, 6to4. */
const EMBEDDED_IPV4 = [
  /^::ffff:([0-9a-f]{1,4}):([0-9a-f]{1,4})$/,
  /^64:ff9b::([0-9a-f]{1,4}):([0-9a-f]{1,4})$/,
  /^2002:([0-9a-f]{1,4}):([0-9a-f]{1,4}):/,
]

/** The reason for a refusal; null if the address is allowed. */
export function addressProblem(address: string, allowPrivate: boolean): string | null {
  const plain = ipv4Or6(address)
  const family = isIP(plain) === 6 ? 'ipv6' : 'ipv4'
  if (NEVER.check(plain, family)) return `${address} is not an address of a registry`
  if (!allowPrivate && PRIVATE.check(plain, family)) return `${address} is in a private network`
  return null
}

export function isPrivate(address: string): boolean {
  return addressProblem(address, false) !== null
}

/** A DNS lookup that returns only allowed addresses. The connection uses the checked answer, so DNS rebinding has no effect. */
export function guardedLookup(allowPrivate: boolean): LookupFunction {
  return (hostname, options, done) => {
    lookup(hostname, { ...options, all: true }, (error, found) => {
      if (error) return done(error, [])
      const problems = found.map(({ address }) => addressProblem(address, allowPrivate))
      const usable = found.filter((_, i) => problems[i] === null)
      const [first] = usable
      if (!first) return done(new RefusedAddress(`${hostname}: ${problems[0] ?? 'it has no address'}`), [])
      if (options.all) done(null, usable)
      else done(null, first.address, first.family)
    })
  }
}

export class RefusedAddress extends Error {
  override readonly name = 'RefusedAddress'
}

function blockList(v4: readonly string[], v6: readonly string[]): BlockList {
  const list = new BlockList()
  const add = (nets: readonly string[], family: 'ipv4' | 'ipv6') => {
    for (const net of nets) {
      const [address = '', bits] = net.split('/')
      list.addSubnet(address, Number(bits), family)
    }
  }
  add(v4, 'ipv4')
  add(v6, 'ipv6')
  return list
}

/** The embedded IPv4 address, or the address itself in the canonical form of URL, which the patterns above expect. */
function ipv4Or6(address: string): string {
  if (isIP(address) !== 6) return address
  const spelled = new URL(`http://[${address.replace(/%.*$/, '')}]`).hostname.slice(1, -1)
  for (const pattern of EMBEDDED_IPV4) {
    const [, high, low] = pattern.exec(spelled) ?? []
    if (high !== undefined && low !== undefined) {
      const bytes = [Number.parseInt(high, 16), Number.parseInt(low, 16)].flatMap(word => [word >> 8, word & 255])
      return bytes.join('.')
    }
  }
  return spelled
}
