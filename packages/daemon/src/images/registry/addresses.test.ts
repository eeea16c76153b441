import { describe, expect, it } from 'vitest'
import { addressProblem } from './addresses.ts'

describe('the address of a registry', () => {
  it.each([
    '169.254.169.254',
    '169.254.1.1',
    '0.0.0.0',
    '224.0.0.1',
    '255.255.255.255',
    '100.100.100.200',
    '168.63.129.16',
    '::',
    'fe80::1',
    'fe80::1%eth0',
    'ff02::1',
    'fd00:ec2::254',
    '::ffff:169.254.169.254',
    '::ffff:a9fe:a9fe',
    '64:ff9b::169.254.169.254',
    '2002:a9fe:a9fe::1',
  ])('%s is never allowed', address => {
    expect(addressProblem(address, true)).toContain('is not an address of a registry')
  })

  it.each(['127.0.0.1', '10.1.2.3', '172.16.0.1', '192.168.1.1', '100.64.0.1', '::1', 'fc00::1', 'fd12::1', '::ffff:127.0.0.1'])(
    '%s is allowed if the caller named it, but not as the target of a redirect',
    address => {
      expect(addressProblem(address, true)).toBeNull()
      expect(addressProblem(address, false)).toContain('private network')
    },
  )

  it.each(['8.8.8.8', '2606:4700::1111', '172.32.0.1', '169.253.255.255'])('%s is allowed', address => {
    expect(addressProblem(address, false)).toBeNull()
  })
})
