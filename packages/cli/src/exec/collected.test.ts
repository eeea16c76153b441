import { expect, test } from 'vitest'
import { Collected } from './collected.ts'

const collect = (maxBytes: number, ...pieces: string[]) => {
  const collected = new Collected(maxBytes)
  for (const piece of pieces) collected.add(Buffer.from(piece))
  return [collected.text(), collected.isTruncated]
}

test('what fits is kept whole', () => {
  expect(collect(10)).toEqual(['', false])
  expect(collect(10, '0123', '456789')).toEqual(['0123456789', false])
})

test('of more the first and the last half are kept, however it comes', () => {
  const long = 'a'.repeat(50) + 'b'.repeat(50)
  expect(collect(10, long)).toEqual(['aaaaabbbbb', true])
  expect(collect(10, ...long)).toEqual(['aaaaabbbbb', true])
  expect(collect(10, '0123456789x')).toEqual(['012346789x', true])
})
