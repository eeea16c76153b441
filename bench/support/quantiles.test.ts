import { expect, test } from 'vitest'
import { figures } from './quantiles.ts'

test('the median of an even number of samples lies between the two in the middle', () => {
  expect(figures([4, 1, 3, 2]).p50).toBe(2.5)
})

test('one sample is every quantile of itself', () => {
  expect(figures([7])).toEqual({ p50: 7, p99: 7, min: 7, max: 7, n: 1 })
})

test('p99 leans on the largest samples without being the largest', () => {
  const samples = Array.from({ length: 101 }, (_, i) => i)
  expect(figures(samples)).toMatchObject({ p50: 50, p99: 99, max: 100 })
})

test('no samples is an error and not a zero', () => {
  expect(() => figures([])).toThrow('no samples')
})
