import { expect, test } from 'vitest'
import { fromNow, parseDuration, shortDuration } from './duration.ts'

test('durations are parsed with and without units', () => {
  expect(parseDuration('90', 's', '--timeout')).toBe(90_000)
  expect(parseDuration('1h30m', 's', '--timeout')).toBe(5_400_000)
  expect(parseDuration('500ms', 's', '--timeout')).toBe(500)
  expect(parseDuration('1.5m', 's', '--timeout')).toBe(90_000)
  for (const wrong of ['', 'm', '-5s', '5 s', '1h30', 'NaN'])
    expect(() => parseDuration(wrong, 's', '--timeout')).toThrow('is not a duration')
})

test('times are shown in their two largest units', () => {
  expect([0, 999, 59_000, 61_000, 3_600_000, 90_000_000].map(shortDuration)).toEqual(['0s', '1s', '59s', '1m 1s', '1h', '1d 1h'])
  expect(fromNow(null)).toBe('-')
  expect(fromNow('2026-01-01T00:00:30Z', Date.parse('2026-01-01T00:00:00Z'))).toBe('in 30s')
  expect(fromNow('2026-01-01T00:00:00Z', Date.parse('2026-01-01T00:05:00Z'))).toBe('5m ago')
})
