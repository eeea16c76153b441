import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { SessionRef } from '../schemas/primitives.ts'
import { DEFAULT_SHELL, newId, SESSION_ID, SESSION_NAME, SHELL_NAME } from './ids.ts'

describe('ids and names', () => {
  it('a new id has the prefix and 16 of a-z0-9', () => {
    for (let i = 0; i < 200; i++) expect(newId('sess_')).toMatch(SESSION_ID)
  })

  it('ten thousand ids are all different', () => {
    expect(new Set(Array.from({ length: 10_000 }, () => newId('sess_'))).size).toBe(10_000)
  })

  it('every character of the alphabet is about equally likely', () => {
    const counts = new Map<string, number>()
    const text = Array.from({ length: 5000 }, () => newId('')).join('')
    for (const c of text) counts.set(c, (counts.get(c) ?? 0) + 1)
    expect(counts.size).toBe(36)
    const expected = text.length / 36
    // Eight standard deviations: a fair draw fails this less than once in 10^13 runs.
    for (const n of counts.values()) expect(Math.abs(n - expected)).toBeLessThan(8 * Math.sqrt(expected))
  })

  it('an id is never a name and a name never an id, so one field can take both', () => {
    fc.assert(fc.property(fc.stringMatching(SESSION_ID), id => !SESSION_NAME.test(id) && SessionRef.safeParse(id).success))
    fc.assert(fc.property(fc.stringMatching(SESSION_NAME), name => !SESSION_ID.test(name) && SessionRef.safeParse(name).success))
  })

  it.each(['a', 'z', `a${'b'.repeat(40)}`, 'a-1'])('%j is a session name', name => {
    expect(SESSION_NAME.test(name)).toBe(true)
  })

  it.each(['', '-', '1', 'A-name', '1abc', 'has space', 'has_underscore', 'ends\n', `a${'b'.repeat(41)}`, '../etc', 'ünïcode'])(
    '%j is not a session name',
    name => {
      expect(SESSION_NAME.test(name)).toBe(false)
    },
  )

  it('the default shell has a valid name', () => {
    expect(DEFAULT_SHELL).toMatch(SHELL_NAME)
  })
})
