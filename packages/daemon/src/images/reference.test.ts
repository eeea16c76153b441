import { describe, expect, it } from 'vitest'
import { idPrefix, normalised, parseReference } from './reference.ts'

const DIGEST = `sha256:${'a1'.repeat(32)}`

describe('references', () => {
  it.each([
    ['debian', 'docker.io/library/debian:latest'],
    ['debian:12', 'docker.io/library/debian:12'],
    ['team/app', 'docker.io/team/app:latest'],
    ['index.docker.io/library/debian', 'docker.io/library/debian:latest'],
    ['localhost/app', 'localhost/app:latest'],
    ['localhost:5000/x:1', 'localhost:5000/x:1'],
    ['Registry.Local/sandbox/python:3.11-standard', 'registry.local/sandbox/python:3.11-standard'],
    ['[::1]:5000/x', '[::1]:5000/x:latest'],
    [`x@${DIGEST}`, `docker.io/library/x@${DIGEST}`],
    [`x:1@${DIGEST}`, `docker.io/library/x@${DIGEST}`],
    ['a/b/c/d:T_1.0-x', 'docker.io/a/b/c/d:T_1.0-x'],
  ])('%s is stored as %s', (given, name) => {
    expect(parseReference(given).name).toBe(name)
    expect(parseReference(name).name).toBe(name)
  })

  it.each([
    '',
    'Debian',
    'a//b',
    'a:',
    ':1',
    'a:b:c',
    'a@sha256:abc',
    `a@${DIGEST}@${DIGEST}`,
    'a b',
    '../etc',
    'ex ample.com/a',
    '-a',
    'a/',
    'http://x/y',
  ])('%j is refused', given => {
    expect(() => parseReference(given)).toThrow('is not an image reference')
  })

  it('an id, or 12 or more of its digits, is distinguished from a name', () => {
    expect(idPrefix(DIGEST)).toBe('a1'.repeat(32))
    expect(idPrefix('a1a1a1a1a1a1')).toBe('a1a1a1a1a1a1')
    expect(idPrefix('a1a1a1a1a1a')).toBeNull()
    expect(idPrefix('debian')).toBeNull()
    expect(normalised('host')).toBe('host')
    expect(normalised(DIGEST)).toBe(DIGEST)
  })
})
