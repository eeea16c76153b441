import { BlockList } from 'node:net'
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { policyOf } from '../policy.fixture.ts'
import { isAddressAllowed } from './address-check.ts'

const none = policyOf({ domains: ['*.example.com'] })
const named = policyOf({ domains: ['db.example.com'], private: ['db.example.com'] })

const BY_NAME = [
  '10.0.0.1',
  '10.255.255.255',
  '172.16.0.1',
  '172.31.255.255',
  '192.168.1.1',
  '100.64.0.1',
  '100.127.255.255',
  '198.18.0.1',
  '127.0.0.1',
  '127.255.255.254',
  '::1',
  'fc00::1',
  'fd12:3456::1',
  'fec0::1',
  '::ffff:10.0.0.1',
  '::ffff:7f00:1',
  '::10.0.0.1',
  '64:ff9b::10.0.0.1',
  '2002:a00:1::1',
  '2001:0:808:808::f5ff:fffe',
]

const BY_LITERAL = [
  '0.0.0.0',
  '0.1.2.3',
  '169.254.169.254',
  '169.254.0.1',
  '168.63.129.16',
  '100.100.100.200',
  '192.0.0.1',
  '192.0.0.192',
  '224.0.0.1',
  '239.255.255.255',
  '240.0.0.1',
  '255.255.255.255',
  '::',
  'fd00:ec2::254',
  'fd20:ce::254',
  'fe80::1',
  'fe80::a9fe:a9fe',
  'ff02::1',
  '100::1',
  '64:ff9b:1::1',
  '2001:2::1',
  '::ffff:169.254.169.254',
  '::ffff:0:169.254.169.254',
  '::169.254.169.254',
  '64:ff9b::a9fe:a9fe',
  '2002:a9fe:a9fe::1',
  '2001:0:a9fe:a9fe::1',
  '2001:0:808:808::5601:5601',
]

const PUBLIC = [
  '8.8.8.8',
  '1.1.1.1',
  '172.15.255.255',
  '172.32.0.1',
  '100.63.255.255',
  '100.128.0.1',
  '192.0.2.1',
  '198.51.100.1',
  '203.0.113.1',
  '198.20.0.1',
  '2001:db8::1',
  '2606:4700::1',
  '::ffff:8.8.8.8',
  '64:ff9b::8.8.8.8',
  '2002:808:808::1',
  '2001:0:808:808::f7f7:f7f7',
]

describe('an address that a name resolves to', () => {
  it.each(PUBLIC)('%s is public', address => {
    expect(isAddressAllowed(none, 'a.example.com', address).allowed).toBe(true)
  })

  it.each(BY_NAME)('%s needs the host or the address under private', address => {
    expect(isAddressAllowed(none, 'a.example.com', address).allowed).toBe(false)
    expect(isAddressAllowed(named, 'a.example.com', address).allowed).toBe(false)
    expect(isAddressAllowed(named, 'db.example.com', address).allowed).toBe(true)
    expect(isAddressAllowed(listing(address), 'a.example.com', address).allowed).toBe(true)
  })

  it.each(BY_LITERAL)('%s needs the address itself under private', address => {
    expect(isAddressAllowed(none, 'a.example.com', address).allowed).toBe(false)
    expect(isAddressAllowed(named, 'db.example.com', address).allowed).toBe(false)
    expect(isAddressAllowed(listing(address), 'a.example.com', address).allowed).toBe(true)
  })

  it.each(['', 'example.com', '127.1', '0x7f.0.0.1', '010.0.0.1', 'fe80::1%eth0', '8.8.8.8 ', '8.8.8.8\0'])(
    '%j is no address',
    address => {
      expect(isAddressAllowed(named, 'db.example.com', address).allowed).toBe(false)
    },
  )

  it('a listed address opens itself and no neighbour', () => {
    const policy = policyOf({ private: ['10.0.0.5', '[::1]'] })
    expect(isAddressAllowed(policy, 'a.example.com', '10.0.0.5').allowed).toBe(true)
    expect(isAddressAllowed(policy, 'a.example.com', '::ffff:10.0.0.5').allowed).toBe(true)
    expect(isAddressAllowed(policy, 'a.example.com', '0:0:0:0:0:0:0:1').allowed).toBe(true)
    expect(isAddressAllowed(policy, 'a.example.com', '10.0.0.6').allowed).toBe(false)
    expect(isAddressAllowed(policy, 'a.example.com', '127.0.0.1').allowed).toBe(false)
  })

  it('a listed host opens neither its subdomains nor its parent', () => {
    for (const host of ['x.db.example.com', 'example.com', 'dbxexample.com']) {
      expect(isAddressAllowed(named, host, '10.0.0.1').allowed).toBe(false)
    }
  })

  it('the reason names the address, what it is and what to do', () => {
    expect(isAddressAllowed(none, 'a.example.com', '10.0.0.1').reason).toBe(
      'a.example.com resolves to 10.0.0.1, which is a private address; only a policy that lists a.example.com under private allows it',
    )
    expect(isAddressAllowed(none, 'a.example.com', '169.254.169.254').reason).toBe(
      'a.example.com resolves to 169.254.169.254, which is a link-local or metadata address; only a policy that lists 169.254.169.254 under private allows it',
    )
    expect(isAddressAllowed(none, '10.0.0.1', '10.0.0.1').reason).toBe(
      '10.0.0.1 is a private address; only a policy that lists 10.0.0.1 under private allows it',
    )
  })

  it('agrees with the block list of Node about every IPv4 address, mapped ones included', () => {
    const blocked = new BlockList()
    for (const [net, prefix] of REFUSED_IPV4) blocked.addSubnet(net, prefix)
    const near = fc
      .constantFrom(...REFUSED_IPV4)
      .chain(([net]) => fc.integer({ min: -300, max: 300 }).map(offset => shift(net, offset)))
    fc.assert(
      fc.property(fc.oneof(fc.ipV4(), near), address => {
        const allowed = !blocked.check(address)
        expect(isAddressAllowed(none, 'a.example.com', address).allowed).toBe(allowed)
        expect(isAddressAllowed(none, 'a.example.com', `::ffff:${address}`).allowed).toBe(allowed)
        expect(isAddressAllowed(none, 'a.example.com', `64:ff9b::${address}`).allowed).toBe(allowed)
      }),
      { numRuns: 1000 },
    )
  })
})

const listing = (address: string) => policyOf({ private: [address.includes(':') ? `[${address}]` : address] })

const REFUSED_IPV4: [string, number][] = [
  ['0.0.0.0', 8],
  ['10.0.0.0', 8],
  ['100.64.0.0', 10],
  ['127.0.0.0', 8],
  ['168.63.129.16', 32],
  ['169.254.0.0', 16],
  ['172.16.0.0', 12],
  ['192.0.0.0', 24],
  ['192.88.99.0', 24],
  ['192.168.0.0', 16],
  ['198.18.0.0', 15],
  ['224.0.0.0', 3],
]

function shift(address: string, offset: number): string {
  const value = address.split('.').reduce((sum, octet) => sum * 256 + Number(octet), 0)
  const moved = (value + offset + 2 ** 32) % 2 ** 32
  return [24, 16, 8, 0].map(bits => Math.floor(moved / 2 ** bits) % 256).join('.')
}
