import { SessionSpec } from '@sandglass/contract'
import { toSnake } from '@sandglass/sdk'
import { expect, test } from 'vitest'
import { parseInput } from './parse.ts'
import { SESSION_OPTIONS, specFromFlags } from './spec-from-flags.ts'

const spec = (...argv: string[]) => toSnake(specFromFlags(parseInput(argv, SESSION_OPTIONS).flags))

test('flags become a request that the contract accepts', () => {
  const made = spec(
    '--memory-mb',
    '1024',
    '--cpu-cores',
    '1.5',
    '--ttl-seconds',
    '1h',
    '--timeout-sec=90',
    '--env',
    'A_B=c=d',
    '--env',
    'E=',
    '--label',
    'x=y',
    '--no-start',
    '--no-readonly-rootfs',
    '--image',
    'host',
  )
  expect(made).toEqual({
    memory_mb: 1024,
    cpu_cores: 1.5,
    ttl_seconds: 3600,
    timeout_sec: 90,
    env: { A_B: 'c=d', E: '' },
    labels: { x: 'y' },
    start: false,
    readonly_rootfs: false,
    image: 'host',
  })
  expect(SessionSpec.parse(made)).toEqual(made)
  expect(spec()).toEqual({})
})

test('none means no ttl and no timeout, and is not special for other flags', () => {
  const made = spec('--persist', '--ttl-seconds', 'none', '--on-expiry', 'pause', '--timeout-sec', 'none')
  expect(made).toEqual({ persist: true, ttl_seconds: null, on_expiry: 'pause', timeout_sec: null })
  expect(SessionSpec.parse(made)).toEqual(made)
  expect(() => spec('--memory-mb', 'none')).toThrow('--memory-mb none is not a size')
})

test('mounts are read-only without :rw, and their source may be relative', () => {
  const made = spec('--mount', '/srv/data:/data', '--mount', 'src:/workspace/src:rw', '--runtime', 'runc', '--nested-virt')
  expect(made).toEqual({
    mounts: [
      { source: '/srv/data', target: '/data', readonly: true },
      { source: `${process.cwd()}/src`, target: '/workspace/src', readonly: false },
    ],
    runtime: 'runc',
    nested_virt: true,
  })
  expect(SessionSpec.parse(made)).toEqual(made)
  for (const text of ['/srv', ':/data', '/srv:', '/srv:/data:rx', '/a:/b:rw:x'])
    expect(() => spec('--mount', text)).toThrow('--mount takes SRC:DST or SRC:DST:rw')
  expect(() => spec('--mount', '/srv:data')).toThrow('must begin with /')
})

test('sizes may have a unit', () => {
  expect(spec('--memory-mb', '2GB', '--disk-mb', '2048MiB')).toEqual({ memory_mb: 2048, disk_mb: 2048 })
})

test('invalid values are refused before the request', () => {
  expect(() => spec('--memory-mb', 'lots')).toThrow('--memory-mb lots is not a size')
  expect(() => spec('--cpu-cores', 'many')).toThrow('--cpu-cores many is not a number')
  expect(() => spec('--ttl-seconds', '5 apples')).toThrow('is not a duration')
  expect(() => spec('--env', 'NOVALUE')).toThrow('--env takes NAME=VALUE')
})

test('short flags mean the same as those of the fields, and only one of both may be given', () => {
  const made = spec('--memory', '2g', '--cpus', '2', '--disk', '5g', '--ttl', '1h', '--name', 'a')
  expect(made).toEqual({ memory_mb: 2048, cpu_cores: 2, disk_mb: 5120, ttl_seconds: 3600, name: 'a' })
  expect(SessionSpec.parse(made)).toEqual(made)
  expect(() => spec('--memory', '2g', '--memory-mb', '2048')).toThrow(
    '--memory and --memory-mb are the same flag: give one of them',
  )
  expect(() => spec('--memory', 'lots')).toThrow('--memory lots is not a size')
  expect(() => spec('--cpus', 'many')).toThrow('--cpus many is not a number')
})
