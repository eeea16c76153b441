import { expect, it } from 'vitest'
import { mostOpenFiles, openFileLimit, openFilePool } from './open-files.ts'

it('all processes of a machine together get a quarter of the pool, and each at least 4096', () => {
  const pool = 2_465_780
  expect(openFileLimit(64, pool)).toBe(Math.min(mostOpenFiles(), 9631))
  expect(openFileLimit(256, pool)).toBe(4096)
  expect(openFileLimit(32_768, pool)).toBe(4096)
  expect(openFileLimit(256, 2 ** 63)).toBe(mostOpenFiles())
})

it('the pool of this host is not exhausted', () => {
  const { open, max } = openFilePool()
  expect(open).toBeGreaterThan(0)
  expect(max).toBeGreaterThan(open)
})
