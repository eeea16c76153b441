import fc from 'fast-check'
import { expect, test } from 'vitest'
import { createDecoder } from './body-decoder.ts'
import type { Framing } from './head.ts'

interface Decoded {
  readonly body: string
  readonly isComplete: boolean
  readonly rest: string
  readonly trailers: unknown
}

/** Decodes a body that arrives in these segments. */
function decode(framing: Framing, segments: string[]): Decoded {
  const decoder = createDecoder(framing)
  let body = ''
  let rest = ''
  const collect = (data: Buffer) => {
    body += data.toString('latin1')
  }
  for (const segment of segments) {
    const bytes = Buffer.from(segment, 'latin1')
    const used = decoder.isComplete ? 0 : decoder.decode(bytes, collect)
    rest += segment.slice(used)
  }
  return { body, isComplete: decoder.isComplete, rest, trailers: decoder.trailers }
}

const chunked: Framing = { kind: 'chunked' }
const CHUNKS = '5\r\nhello\r\nA;name=value;x\r\n0123456789\r\n0\r\nX-Sum: 15\r\nY: z\r\n\r\n'
const NEXT = 'GET / HTTP/1.1\r\n'
const whole = {
  body: 'hello0123456789',
  isComplete: true,
  rest: NEXT,
  trailers: [
    ['X-Sum', '15'],
    ['Y', 'z'],
  ],
}

test('chunks are joined, extensions dropped, trailers kept, and what follows is left', () => {
  expect(decode(chunked, [CHUNKS + NEXT])).toEqual(whole)
})

test('a chunked body is the same however it is cut', () => {
  const text = CHUNKS + NEXT
  for (let at = 0; at <= text.length; at += 1)
    expect(decode(chunked, [text.slice(0, at), text.slice(at)]), `cut at ${at}`).toEqual(whole)
  expect(decode(chunked, [...text])).toEqual(whole)
})

test('any body survives being put into chunks', () => {
  fc.assert(
    fc.property(fc.array(fc.uint8Array({ minLength: 1, maxLength: 50 })), fc.integer({ min: 1, max: 20 }), (parts, size) => {
      const text = parts.map(part => `${part.length.toString(16)}\r\n${Buffer.from(part).toString('latin1')}\r\n`).join('')
      const all = `${text}0\r\n\r\n`
      const segments = Array.from({ length: Math.ceil(all.length / size) }, (_, index) =>
        all.slice(index * size, (index + 1) * size),
      )
      const expected = parts.map(part => Buffer.from(part).toString('latin1')).join('')
      expect(decode(chunked, segments)).toEqual({ body: expected, isComplete: true, rest: '', trailers: [] })
    }),
  )
})

test('a body of known length ends after it', () => {
  const length: Framing = { kind: 'length', length: 5 }
  for (let at = 0; at <= 9; at += 1) {
    expect(decode(length, ['helloNEXT'.slice(0, at), 'helloNEXT'.slice(at)])).toMatchObject({
      body: 'hello',
      isComplete: true,
      rest: 'NEXT',
    })
  }
  expect(decode(length, ['hell']).isComplete).toBe(false)
})

test.each([
  ['no size', '\r\nhello'],
  ['size that is no number', 'xyz\r\n'],
  ['negative size', '-5\r\nhello\r\n'],
  ['size with a prefix', '0x5\r\nhello\r\n'],
  ['size with a space before', ' 5\r\nhello\r\n'],
  ['size with a space after', '5 \r\nhello\r\n'],
  ['size with a tab', '5\t\r\nhello\r\n'],
  ['size with a bare LF', '5\nhello\r\n'],
  ['size with a bare CR', '5\rhello\r\n'],
  ['size that overflows', 'fffffffffffffffff\r\n'],
  ['size with an underscore', '1_0\r\n'],
  ['chunk that is longer than its size', '5\r\nhello!\r\n'],
  ['chunk that ends with a bare LF', '5\r\nhello\n0\r\n\r\n'],
  ['chunk that ends with a bare CR', '5\r\nhello\rX'],
  ['extension with a bare LF', '5;a\nhello\r\n'],
  ['extension with a bare CR', '5;a\rX'],
  ['extension without a name', '5;\r\nhello\r\n'],
  ['extension without a value', '5;a=\r\nhello\r\n'],
  ['extension with a control character', '5;a\x01\r\nhello\r\n'],
  ['endless extension', `5;${'a'.repeat(2000)}`],
  ['trailer with a bare LF', '0\r\nX: y\n\r\n'],
  ['bare LF instead of the last line', '0\r\n\n'],
  ['folded trailer', '0\r\nX: y\r\n z\r\n\r\n'],
  ['trailer that is no header', '0\r\nGET / HTTP/1.1\r\n\r\n'],
  ['endless trailers', `0\r\n${'X: y\r\n'.repeat(4000)}`],
])('a chunked body is refused: %s', (_what, text) => {
  expect(() => decode(chunked, [text])).toThrow()
  expect(() => decode(chunked, [...text])).toThrow()
})

test('trailers that would be headers of the connection are dropped', () => {
  const text =
    '0\r\nContent-Length: 5\r\ntransfer-encoding: chunked\r\nHost: evil.com\r\nProxy-Authorization: x\r\nGood: 1\r\n\r\n'
  expect(decode(chunked, [text]).trailers).toEqual([['Good', '1']])
})
