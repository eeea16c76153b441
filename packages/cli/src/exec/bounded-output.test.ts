import { expect, test } from 'vitest'
import { BoundedOutput } from './bounded-output.ts'

const collect = (maxBytes: number, ...pieces: string[]) => {
  const output = new BoundedOutput(maxBytes)
  for (const piece of pieces) output.add(Buffer.from(piece))
  return [output.text(), output.isTruncated]
}

test('output within the limit is kept whole', () => {
  expect(collect(10)).toEqual(['', false])
  expect(collect(10, '0123', '456789')).toEqual(['0123456789', false])
})

test('of longer output the first and the last half are kept, in pieces of any size', () => {
  const long = 'a'.repeat(50) + 'b'.repeat(50)
  expect(collect(10, long)).toEqual(['aaaaabbbbb', true])
  expect(collect(10, ...long)).toEqual(['aaaaabbbbb', true])
  expect(collect(10, '0123456789x')).toEqual(['012346789x', true])
})
