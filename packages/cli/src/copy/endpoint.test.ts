import { expect, test } from 'vitest'
import { nameOf, parseEndpoint } from './endpoint.ts'

test('an endpoint is a path in a session, a path on this machine or a standard stream', () => {
  expect(parseEndpoint('calm-otter:/tmp/a:b')).toEqual({ kind: 'sandbox', session: 'calm-otter', path: '/tmp/a:b' })
  expect(parseEndpoint('calm-otter:')).toEqual({ kind: 'sandbox', session: 'calm-otter', path: '.' })
  expect(parseEndpoint('sess_0123456789abcdef:x').kind).toBe('sandbox')
  expect(parseEndpoint('a:x')).toEqual({ kind: 'sandbox', session: 'a', path: 'x' })
  for (const path of ['./calm-otter:x', '/a:b', 'C:x', 'plain', '..']) expect(parseEndpoint(path)).toEqual({ kind: 'host', path })
  expect(parseEndpoint('-')).toEqual({ kind: 'stdio' })
})

test('a path without a name of its own needs a named target', () => {
  expect(nameOf('/a/b/')).toBe('b')
  for (const path of ['/', '.', 'a/..']) expect(() => nameOf(path)).toThrow('name the target')
})
