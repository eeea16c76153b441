import { expect, it } from 'vitest'
import { closedDevice } from './accel.ts'

it.each([
  ['ENOENT', 'there is no /dev/kvm', 'load kvm_intel or kvm_amd'],
  ['EACCES', 'this user may not open /dev/kvm', 'usermod -aG kvm'],
  ['EIO', '/dev/kvm cannot be opened (EIO)', 'ls -l /dev/kvm'],
])('a device that fails with %s is told in words, with what mends it', (code, what, fix) => {
  expect(closedDevice(code)).toEqual({ what: expect.stringContaining(what), fix: expect.stringContaining(fix) })
})
