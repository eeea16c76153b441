import { describe, expect, it } from 'vitest'
import { seccompProfile } from '../../isolation/seccomp.ts'
import { seccompFilter } from './seccomp-filter.ts'
import { syscallNumbers } from './syscall-numbers.ts'

const ALLOW = 'allow'
const X64 = 0xc000_003e

/** Runs the filter as the kernel does. */
function verdict(filter: Buffer, number: number, args: readonly bigint[] = [], architecture = X64): string {
  const data = Buffer.alloc(64)
  data.writeUInt32LE(number, 0)
  data.writeUInt32LE(architecture, 4)
  for (const [i, arg] of args.entries()) data.writeBigUInt64LE(arg, 16 + i * 8)
  let accumulator = 0
  for (let at = 0; ; at++) {
    const [code, yes, no] = [filter.readUInt16LE(at * 8), filter.readUInt8(at * 8 + 2), filter.readUInt8(at * 8 + 3)]
    const operand = filter.readUInt32LE(at * 8 + 4)
    if (code === 0x20) accumulator = data.readUInt32LE(operand)
    else if (code === 0x54) accumulator = (accumulator & operand) >>> 0
    else if (code === 0x05) at += operand
    else if (code === 0x15) at += accumulator === operand ? yes : no
    else if (code === 0x25) at += accumulator > operand ? yes : no
    else if (code === 0x35) at += accumulator >= operand ? yes : no
    else return operand === 0x7fff_0000 ? ALLOW : `errno ${operand & 0xffff}`
  }
}

describe('the compiled filter', () => {
  const profile = seccompProfile('x64')
  const filter = seccompFilter(profile, 'x64')
  const numbers = syscallNumbers('x64')
  const call = (name: string, ...args: (number | bigint)[]) => verdict(filter, numbers.get(name) ?? -1, args.map(BigInt))

  it('returns the action of the profile for every call without conditions', () => {
    for (const { names, action, errnoRet, args } of profile.syscalls) {
      if (args !== undefined) continue
      for (const name of names) {
        const number = numbers.get(name)
        if (number !== undefined)
          expect([name, verdict(filter, number)]).toEqual([name, action === 'SCMP_ACT_ALLOW' ? ALLOW : `errno ${errnoRet}`])
      }
    }
  })

  it('denies every call that the profile does not name, of any table', () => {
    const known = new Set(numbers.values())
    for (let number = 0; number < 600; number++) if (!known.has(number)) expect(verdict(filter, number)).toBe('errno 38')
    expect(verdict(filter, 0x4000_0000 + (numbers.get('read') ?? 0))).toBe('errno 38')
    expect(verdict(filter, numbers.get('read') ?? 0, [], 0x4000_0003)).toBe('errno 38')
  })

  it('checks arguments as the profile says', () => {
    expect(call('clone', 0x11)).toBe(ALLOW)
    expect(call('clone', 0x1000_0011)).toBe('errno 1')
    expect(call('socket', 1, 1, 0)).toBe(ALLOW)
    expect(call('socket', 2, 1 | 0o4000, 6)).toBe(ALLOW)
    expect(call('socket', 2, 3, 1)).toBe('errno 38')
    expect(call('socket', 16, 3, 9)).toBe('errno 93')
    expect(call('socket', 16, 3, 4)).toBe('errno 38')
    expect(call('socket', 40, 1, 0)).toBe('errno 97')
    expect(call('socket', 0x1_0000_0001n, 1, 0)).toBe('errno 97')
    expect(call('personality', 0xffff_ffff)).toBe(ALLOW)
    expect(call('personality', 0x40_0000)).toBe('errno 38')
    for (const request of [0x5412n, 0x541cn, 0x1_0000_5412n]) expect(call('ioctl', 0, request)).toBe('errno 38')
    for (const request of [0x5413n, 0x5411n, 0xffff_ffffn, 0n]) expect(call('ioctl', 0, request)).toBe(ALLOW)
  })

  it('is within the kernel’s size limit on both architectures', () => {
    for (const arch of ['x64', 'arm64'] as const) expect(seccompFilter(seccompProfile(arch), arch).length / 8).toBeLessThan(4096)
  })
})
