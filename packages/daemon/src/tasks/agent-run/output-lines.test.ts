import { LIMITS } from '@sandglass/contract'
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { OutputLines } from './output-lines.ts'

const MAX = LIMITS.task_line_bytes.max

function split(chunks: readonly Buffer[]): { lines: ReturnType<OutputLines['push']>; position: number } {
  const splitter = new OutputLines(0)
  const lines = chunks.flatMap(chunk => splitter.push(chunk))
  const last = splitter.finish()
  return { lines: last === null ? lines : [...lines, last], position: splitter.position }
}

/** Cuts bytes at the given places. */
function cut(bytes: Buffer, places: readonly number[]): Buffer[] {
  const sorted = [...new Set(places.map(place => place % (bytes.length + 1)))].toSorted((a, b) => a - b)
  return [0, ...sorted].map((from, index) => bytes.subarray(from, sorted[index] ?? bytes.length))
}

describe('lines of output', () => {
  it('are the same however the output is cut', () => {
    const texts = fc.array(fc.stringMatching(/^[a-zäß€😀 {}"]*$/u), { maxLength: 20 })
    fc.assert(
      fc.property(texts, fc.array(fc.nat()), fc.boolean(), (parts, places, endsWithBreak) => {
        const text = parts.join('\n') + (endsWithBreak ? '\n' : '')
        const { lines, position } = split(cut(Buffer.from(text), places))
        const expected = text.split('\n')
        if (expected.at(-1) === '') expected.pop()
        expect(lines.map(line => line.text)).toEqual(expected)
        expect(position).toBe(Buffer.byteLength(text))
        expect(lines.at(-1)?.end ?? 0).toBe(position)
      }),
    )
  })

  it('that are too long keep their beginning, and the next line is whole', () => {
    const { lines, position } = split([Buffer.alloc(MAX, 'a'), Buffer.alloc(3 * MAX, 'b'), Buffer.from('\nnext\n')])
    expect(lines.map(({ text, isTruncated }) => [text.length, text.slice(-1), isTruncated])).toEqual([
      [MAX, 'a', true],
      [4, 't', false],
    ])
    expect(position).toBe(4 * MAX + 6)
  })

  it('go on with the parts of an unfinished line that were stored', () => {
    const first = new OutputLines(0)
    expect(first.push(Buffer.from('whole\nbegin'))).toMatchObject([{ text: 'whole', end: 6 }])
    expect(first.unstoredBytes).toBe(5)
    const part = first.takePart()
    expect([part.toString(), first.unstoredBytes, first.position]).toEqual(['begin', 0, 11])
    const second = new OutputLines(11, [part])
    expect(second.unstoredBytes).toBe(0)
    expect(second.push(Buffer.from('ning\n'))).toEqual([{ text: 'beginning', isTruncated: false, end: 16 }])
  })
})
