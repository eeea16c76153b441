import { expect, it } from 'vitest'
import { type QemuInput, qemuArgs } from './command-line.ts'

const least: QemuInput = {
  qemu: '/usr/bin/qemu-system-x86_64',
  arch: 'x64',
  id: 'sess_0123456789abcdef',
  accel: 'tcg',
  tscKhz: 0,
  memoryMb: 256,
  vcpus: 1,
  diskFormat: 'raw',
  durable: false,
  nestedVirt: false,
  layers: 0,
  packages: [],
  modules: [],
  extraArgs: [],
  restore: false,
  readAhead: false,
  egress: false,
  bridged: false,
  shares: 0,
  shareProto: 'virtiofs',
}

/** The descriptors that a command line names, once each, and the kernel's among them. */
function descriptors(changes: Partial<QemuInput>): number[] {
  const found = qemuArgs({ ...least, ...changes })
    .join(' ')
    .matchAll(/(?:fd=|fd:|\/dev\/fd\/)(\d+)/g)
  return [...new Set([...found].map(([, number]) => Number(number)))].toSorted((a, b) => a - b)
}

it.each<[string, Partial<QemuInput>, number]>([
  ['a machine', {}, 8],
  ['a machine with egress', { egress: true }, 9],
  ['a restored machine with egress', { egress: true, restore: true }, 10],
  ['a restored machine with two packages', { packages: ['claude', 'codex'], restore: true }, 11],
  ['a machine with egress, a bridge and two shares', { egress: true, bridged: true, shares: 2 }, 12],
])('%s has a descriptor for each file and socket, without a gap', (_, changes, count) => {
  expect(descriptors(changes)).toEqual(Array.from({ length: count }, (_, i) => i + 3))
})

it('only a machine with egress has a port for it', () => {
  const port = 'virtserialport,chardev=egress,name=sandglass.egress'
  expect(qemuArgs(least)).not.toContain(port)
  expect(qemuArgs({ ...least, egress: true })).toContain(port)
})
