import { expect, test } from 'vitest'
import { nameOf, parseLocation } from './location.ts'

test('a session, this machine and the standard streams are told apart', () => {
  expect(parseLocation('calm-otter:/tmp/a:b')).toEqual({ kind: 'sandbox', session: 'calm-otter', path: '/tmp/a:b' })
  expect(parseLocation('calm-otter:')).toEqual({ kind: 'sandbox', session: 'calm-otter', path: '.' })
  expect(parseLocation('sess_0123456789abcdef:x').kind).toBe('sandbox')
  expect(parseLocation('a:x')).toEqual({ kind: 'sandbox', session: 'a', path: 'x' })
  for (const path of ['./calm-otter:x', '/a:b', 'C:x', 'plain', '..']) expect(parseLocation(path)).toEqual({ kind: 'host', path })
  expect(parseLocation('-')).toEqual({ kind: 'stdio' })
})

test('a path without a name of its own needs a target', () => {
  expect(nameOf('/a/b/')).toBe('b')
  for (const path of ['/', '.', 'a/..']) expect(() => nameOf(path)).toThrow('name the target')
})
