import { expect, it } from 'vitest'
import { freeRange, hasSubIds } from './sub-ids.ts'

it.each([
  ['nobody has any', '', '100000-165535'],
  ['somebody has the first', 'ann:100000:65536\n', '165536-231071'],
  ['the two files differ', 'ann:100000:65536\nann:165536:65536\n', '231072-296607'],
  ['there is a gap that is wide enough', 'ann:165536:65536\n', '100000-165535'],
  ['there is a gap that is too narrow', 'ann:150000:1000\nbob:300000:65536\n', '151000-216535'],
  ['ranges overlap and are out of order', 'bob:120000:10\nann:100000:65536\n', '165536-231071'],
  ['there are other lines', '# ann:100000:65536\n\nodd\n', '100000-165535'],
])('the suggested range is free when %s', (_, text, range) => {
  expect(freeRange(text)).toBe(range)
})

it('sub-ids of a user are found by name or by number', () => {
  const user = { username: 'ann', uid: 1000 }
  expect(hasSubIds('ann:100000:65536\n', user)).toBe(true)
  expect(hasSubIds('1000:100000:65536\n', user)).toBe(true)
  expect(hasSubIds('ann:100000:1000\nbob:200000:65536\n', user)).toBe(false)
})
