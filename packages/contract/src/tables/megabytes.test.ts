import { expect, it } from 'vitest'
import { parseMegabytes } from './megabytes.ts'

it('a size is read with and without a unit, in any case', () => {
  expect(['512', '512MB', '512 MiB', '2GB', '2GiB', '2g', '1.5gb', '512m'].map(parseMegabytes)).toEqual([
    512, 512, 512, 2048, 2048, 2048, 1536, 512,
  ])
})

it('text that is not a size is refused', () => {
  expect(['', 'lots', '-1', '1e3', '2TB', 'GB', '2 G B', '512kb'].map(parseMegabytes)).toEqual(Array(8).fill(undefined))
})
