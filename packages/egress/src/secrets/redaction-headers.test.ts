import { describe, expect, it } from 'vitest'
import type { HeaderList } from '../http/message.ts'
import type { SessionSecret } from '../session.ts'
import { createRedactor } from './redact.ts'
import { narrowAcceptEncoding, replyHeadersAfterRedaction, requestHeadersForRedaction } from './redaction-headers.ts'
import { REAL, SURROGATE, secret } from './secrets.fixture.ts'

const narrowed = (...values: string[]) => narrowAcceptEncoding(values.map(value => ['Accept-Encoding', value] as const))

describe('the accepted encodings', () => {
  it.each([
    ['gzip, deflate, br, zstd', 'gzip, deflate'],
    ['br;q=1.0, gzip;q=0.8, *;q=0.1', 'gzip;q=0.8'],
    ['GZIP', 'GZIP'],
    ['x-gzip', 'x-gzip'],
    ['identity', 'identity'],
    ['br', 'identity'],
    ['*', 'identity'],
    ['', 'identity'],
    ['gzip;q=0, br', 'identity'],
    ['identity;q=0, br', 'identity'],
    ['gzip;q=0.0, deflate', 'gzip;q=0.0, deflate'],
  ])('%j become %j', (value, expected) => {
    expect(narrowed(value)).toEqual([['Accept-Encoding', expected]])
  })

  it('of several headers are in one, and one is added where there is none', () => {
    expect(
      narrowAcceptEncoding([
        ['accept-encoding', 'br'],
        ['A', 'b'],
        ['ACCEPT-ENCODING', 'gzip'],
      ]),
    ).toEqual([
      ['accept-encoding', 'gzip'],
      ['A', 'b'],
    ])
    expect(narrowed()).toEqual([['accept-encoding', 'identity']])
  })
})

describe('a request whose reply is redacted', () => {
  const headers: HeaderList = [
    ['Range', 'bytes=0-9'],
    ['If-Range', '"x"'],
    ['Sec-WebSocket-Extensions', 'permessage-deflate'],
    ['A', 'b'],
  ]

  it('asks for no part and no compressed WebSocket', () => {
    expect(requestHeadersForRedaction([secret()], headers)).toEqual([
      ['A', 'b'],
      ['accept-encoding', 'identity'],
    ])
  })

  it('to S3 can ask for a part', () => {
    const keys = { access_key_id: 'AKIA', secret_access_key: 'x' }
    const aws: SessionSecret = { ...secret(), kind: 'aws', value: keys, surrogate: keys }
    expect(requestHeadersForRedaction([aws], headers)).toContainEqual(['Range', 'bytes=0-9'])
    expect(requestHeadersForRedaction([aws, secret()], headers)).not.toContainEqual(['Range', 'bytes=0-9'])
  })
})

describe('a reply that was redacted', () => {
  const after = (headers: HeaderList, value = REAL) => {
    const redactor = createRedactor([secret({ value })])
    return redactor === null ? null : replyHeadersAfterRedaction(redactor, headers)
  }

  it('has no digest of its original body, and keeps its ETag', () => {
    const digests = ['Digest', 'Content-Digest', 'Repr-Digest', 'Content-MD5', 'x-amz-checksum-crc32', 'X-Amz-Checksum-Sha256']
    expect(after([...digests.map(name => [name, 'x'] as const), ['ETag', '"x"']])).toEqual([['ETag', '"x"']])
  })

  it('keeps its length only if nothing can change it', () => {
    expect(after([['Content-Length', '5']])).toEqual([['Content-Length', '5']])
    expect(
      after([
        ['Content-Length', '5'],
        ['Content-Encoding', 'identity'],
      ]),
    ).toEqual([['Content-Length', '5']])
    expect(
      after([
        ['Content-Length', '5'],
        ['Content-Encoding', 'gzip'],
      ]),
    ).toEqual([])
    expect(after([['content-length', '5']], `${REAL}+`)).toEqual([])
  })

  it('has redacted headers', () => {
    expect(after([['Location', `/?t=${REAL}`]])).toEqual([['Location', `/?t=${SURROGATE}`]])
  })
})
