import fc from 'fast-check'
import { expect, test } from 'vitest'
import { createSseParser } from './sse.ts'

const STREAM =
  ': hello\nid: 7\nevent: chunk\ndata: {"a":1}\r\n\r\ndata: two\ndata:  lines\nid: 8\n\ndata\n\nevent: none\n\ndata: é😀\r\r'

test('events are the same however the bytes are cut', () => {
  const whole = createSseParser()(`${STREAM}\n`)
  expect(whole).toEqual([
    { type: 'chunk', data: '{"a":1}', id: '7' },
    { type: 'message', data: 'two\n lines', id: '8' },
    { type: 'message', data: '', id: '8' },
    { type: 'message', data: 'é😀', id: '8' },
  ])
  fc.assert(
    fc.property(fc.array(fc.nat(STREAM.length), { maxLength: 20 }), cuts => {
      const parse = createSseParser()
      const edges = [0, ...cuts.sort((a, b) => a - b), STREAM.length]
      const events = edges.slice(1).flatMap((end, i) => parse(STREAM.slice(edges[i], end)))
      expect([...events, ...parse('\n')]).toEqual(whole)
    }),
  )
})

test('an id with a NUL and an unfinished event are ignored', () => {
  const parse = createSseParser()
  expect(parse('id: a\0b\ndata: x\n\ndata: never ended\n')).toEqual([{ type: 'message', data: 'x', id: undefined }])
})
