import { expect, it } from 'vitest'
import { mostOpenFiles, openFileLimit, openFilePool } from './open-files.ts'

it('processes of one machine together get a quarter of the pool, and each no fewer than usual programs need', () => {
  const pool = 2_465_780
  expect(openFileLimit(64, pool)).toBe(Math.min(mostOpenFiles(), 9631))
  expect(openFileLimit(256, pool)).toBe(4096)
  expect(openFileLimit(32_768, pool)).toBe(4096)
  expect(openFileLimit(256, 2 ** 63)).toBe(mostOpenFiles())
})

it('the pool of this host has room', () => {
  const { open, max } = openFilePool()
  expect(open).toBeGreaterThan(0)
  expect(max).toBeGreaterThan(open)
})
