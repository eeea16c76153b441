import { describe, expect, it } from 'vitest'
import { Timestamp } from './primitives.ts'
import { SessionSpec } from './session.ts'

describe('a session', () => {
  it('has times in UTC, and no other', () => {
    expect(Timestamp.safeParse(new Date(0).toISOString()).success).toBe(true)
    for (const other of ['1970-01-01T01:00:00.000+01:00', '1970-01-01T00:00:00', '1970-01-01', '0']) {
      expect(Timestamp.safeParse(other).success).toBe(false)
    }
  })

  it('needs nothing to be created, and nothing unknown', () => {
    expect(SessionSpec.parse({})).toEqual({})
    expect(SessionSpec.safeParse({ cpu: 1 }).success).toBe(false)
  })
})
