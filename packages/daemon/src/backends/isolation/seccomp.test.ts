import { describe, expect, it } from 'vitest'
import { refusalProfile, seccompProfile } from './seccomp.ts'

const { syscalls, defaultAction, defaultErrnoRet } = seccompProfile('x64')
const allowed = (name: string) => syscalls.filter(rule => rule.names.includes(name) && rule.action === 'SCMP_ACT_ALLOW')

describe('the seccomp profile', () => {
  it('a call that is not named fails with ENOSYS', () => {
    expect({ defaultAction, defaultErrnoRet }).toEqual({ defaultAction: 'SCMP_ACT_ERRNO', defaultErrnoRet: 38 })
    expect(allowed('clone3')).toEqual([])
    expect(allowed('a_call_of_a_later_kernel')).toEqual([])
  })

  it('clone3 is named with ENOSYS for engines that ignore the default', () => {
    const rules = syscalls.filter(rule => rule.names.includes('clone3'))
    expect(rules).toMatchObject([{ action: 'SCMP_ACT_ERRNO', errnoRet: 38 }])
  })

  it('no call is both allowed and refused', () => {
    const refused = syscalls
      .filter(rule => rule.action !== 'SCMP_ACT_ALLOW' && rule.args === undefined)
      .flatMap(rule => rule.names)
    expect(refused.filter(name => allowed(name).length > 0)).toEqual([])
  })

  it('every ioctl is allowed except the two that inject terminal input, by the lower 32 bits', () => {
    const passes = (request: number) =>
      allowed('ioctl').some(rule => {
        const [arg] = rule.args ?? []
        return arg !== undefined && (BigInt(request) & BigInt(arg.value)) === BigInt(arg.valueTwo ?? -1)
      })
    for (const request of [0x5412, 0x541c, 0x1_0000_5412]) expect(passes(request)).toBe(false)
    for (const request of [0, 0x5401, 0x5411, 0x5413, 0x541b, 0x541d, 0x5414, 0xc020_660b, 0xffff_ffff])
      expect(passes(request)).toBe(true)
  })

  it('a thread must share the open files of its process', () => {
    const passes = (name: string, argument: number) =>
      allowed(name).some(({ args: [arg] = [] }) => arg !== undefined && (argument & arg.value) === arg.valueTwo)
    const [process, thread, threadWithOwnFiles] = [0x0120_0011, 0x003d_0f00, 0x0001_0900]
    expect([process, thread, threadWithOwnFiles].map(flags => passes('clone', flags))).toEqual([true, true, false])
    expect([0, 2, 4].map(flags => passes('close_range', flags))).toEqual([true, false, true])
  })

  it('the profile covers only the architecture of the machine', () => {
    expect(seccompProfile('arm64').architectures).toEqual(['SCMP_ARCH_AARCH64'])
    expect(seccompProfile('x64').architectures).toEqual(['SCMP_ARCH_X86_64'])
  })
})

describe('the deny-list for a sandbox with its own kernel', () => {
  const profile = refusalProfile('x64')

  it('a call that is not named is allowed, clone3 included', () => {
    expect(profile.defaultAction).toBe('SCMP_ACT_ALLOW')
    expect(profile.syscalls.every(rule => rule.action === 'SCMP_ACT_ERRNO')).toBe(true)
    expect(profile.syscalls.flatMap(rule => rule.names)).not.toContain('clone3')
  })

  it('every call that fails with EPERM elsewhere and every new namespace is refused', () => {
    const names = profile.syscalls.filter(rule => rule.args === undefined).flatMap(rule => rule.names)
    for (const call of ['mount', 'unshare', 'setns', 'bpf', 'keyctl', 'open_by_handle_at']) expect(names).toContain(call)
    const refused = (flags: number) =>
      profile.syscalls.some(
        rule => rule.names.includes('clone') && rule.args?.some(({ value, valueTwo }) => (flags & value) === valueTwo),
      )
    for (const flag of [0x0002_0000, 0x0200_0000, 0x0400_0000, 0x0800_0000, 0x1000_0000, 0x2000_0000, 0x4000_0000])
      expect(refused(flag | 17)).toBe(true)
    expect(refused(0x003d_0f00)).toBe(false) // a thread
  })
})
