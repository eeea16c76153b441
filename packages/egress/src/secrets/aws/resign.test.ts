import { Readable } from 'node:stream'
import { buffer } from 'node:stream/consumers'
import { describe, expect, it } from 'vitest'
import type { RequestHead } from '../../http/message.ts'
import { VECTOR_KEYS, VECTOR_SESSION_KEYS } from './botocore-vectors.fixture.ts'
import { authorizationOf, EMPTY_HASH, requestOf, SESSION_SURROGATE, SURROGATE, secretOf, signatureOf } from './request.fixture.ts'
import { MAX_HASHED_BODY, resignAws } from './resign.ts'

const DATE = ['X-Amz-Date', '20250314T150926Z'] as const
const HOST = ['Host', 'bucket.s3.amazonaws.com'] as const
const HASH = ['X-Amz-Content-SHA256', EMPTY_HASH] as const
const signedBy = (keyId: string, signedHeaders = 'host;x-amz-content-sha256;x-amz-date', algorithm = 'AWS4-HMAC-SHA256') =>
  [
    'Authorization',
    `${algorithm} Credential=${keyId}/20250314/us-east-1/s3/aws4_request, SignedHeaders=${signedHeaders}, Signature=00`,
  ] as const
const put = (...headers: (readonly [string, string])[]) => requestOf('PUT', HOST[1], '/key', headers)
const OURS = secretOf(VECTOR_KEYS, SURROGATE)

describe('a request that is signed again', () => {
  it('loses signed headers that it no longer has, and those of one connection', async () => {
    const signed = 'accept-encoding;connection;host;range;x-amz-content-sha256;x-amz-date'
    const { head } = await resignAws(
      [OURS],
      put(HOST, DATE, HASH, ['Connection', 'close'], signedBy(SURROGATE.access_key_id, signed)),
      null,
    )
    expect(authorizationOf(head)).toContain('SignedHeaders=host;x-amz-content-sha256;x-amz-date,')
  })

  it('has the same signature over HTTP/2, where :authority is the host', async () => {
    const first = await resignAws([OURS], put(HOST, DATE, HASH, signedBy(SURROGATE.access_key_id)), null)
    const http2 = put(DATE, HASH, signedBy(SURROGATE.access_key_id, ':authority;x-amz-content-sha256;x-amz-date'))
    const second = await resignAws([OURS], { ...http2, version: '2' }, null)
    expect(second.refused).toBeNull()
    expect(signatureOf(second.head)).toBe(signatureOf(first.head))
    const other = await resignAws([OURS], { ...http2, version: '2', port: 8443 }, null)
    expect(other).toMatchObject({ masked: 0, refused: null })
  })

  it('is signed for the host as it is sent upstream, however the sandbox writes it', async () => {
    const plain = await resignAws([OURS], put(HOST, DATE, HASH, signedBy(SURROGATE.access_key_id)), null)
    const odd = await resignAws(
      [OURS],
      put(['HOST', 'Bucket.S3.amazonaws.com.:443'], DATE, HASH, signedBy(SURROGATE.access_key_id)),
      null,
    )
    expect(signatureOf(odd.head)).toBe(signatureOf(plain.head))
  })

  it('gets a session token that the surrogate key lacks, and loses one that the real key lacks', async () => {
    const gains = await resignAws(
      [secretOf(VECTOR_SESSION_KEYS, SURROGATE)],
      put(HOST, DATE, HASH, signedBy(SURROGATE.access_key_id)),
      null,
    )
    expect(gains.head.headers).toContainEqual(['x-amz-security-token', VECTOR_SESSION_KEYS.session_token])
    expect(authorizationOf(gains.head)).toContain('x-amz-date;x-amz-security-token,')

    const token = ['X-Amz-Security-Token', SESSION_SURROGATE.session_token] as const
    const authorization = signedBy(SESSION_SURROGATE.access_key_id, 'host;x-amz-content-sha256;x-amz-date;x-amz-security-token')
    const loses = await resignAws([secretOf(VECTOR_KEYS, SESSION_SURROGATE)], put(HOST, DATE, HASH, token, authorization), null)
    expect(JSON.stringify(loses.head)).not.toMatch(/security-token/i)
    const plain = await resignAws([OURS], put(HOST, DATE, HASH, signedBy(SURROGATE.access_key_id)), null)
    expect(signatureOf(loses.head)).toBe(signatureOf(plain.head))
  })

  it('contains nothing of the surrogate key', async () => {
    const { head } = await resignAws([OURS], put(HOST, DATE, HASH, signedBy(SURROGATE.access_key_id)), null)
    expect(JSON.stringify(head)).not.toContain(SURROGATE.access_key_id)
    expect(JSON.stringify(head)).not.toContain(VECTOR_KEYS.secret_access_key)
  })

  it.each(['UNSIGNED-PAYLOAD', 'STREAMING-UNSIGNED-PAYLOAD-TRAILER'])('with %s keeps its body', async kind => {
    const body = Buffer.from('5\r\nhello\r\n0\r\n\r\n')
    const request = put(HOST, DATE, ['x-amz-content-sha256', kind], signedBy(SURROGATE.access_key_id))
    expect(await resignAws([OURS], request, body)).toMatchObject({ masked: 1, body })
  })

  it('with signed chunks gets a body whose chunks are signed', async () => {
    const kind = ['x-amz-content-sha256', 'STREAMING-AWS4-HMAC-SHA256-PAYLOAD'] as const
    const body = Buffer.from(`5;chunk-signature=${'0'.repeat(64)}\r\nhello\r\n0;chunk-signature=${'0'.repeat(64)}\r\n\r\n`)
    const result = await resignAws([OURS], put(HOST, DATE, kind, signedBy(SURROGATE.access_key_id)), Readable.from([body]))
    const sent = await buffer(result.body instanceof Readable ? result.body : Readable.from([]))
    expect(sent).toHaveLength(body.length)
    expect(sent.toString()).toMatch(
      /^5;chunk-signature=(?!0{64})[0-9a-f]{64}\r\nhello\r\n0;chunk-signature=(?!0{64})[0-9a-f]{64}\r\n\r\n$/,
    )
  })

  it('is dated by Date if it has no x-amz-date', async () => {
    const date = ['Date', 'Fri, 14 Mar 2025 15:09:26 GMT'] as const
    expect(await resignAws([OURS], put(HOST, date, HASH, signedBy(SURROGATE.access_key_id, 'host;date')), null)).toMatchObject({
      masked: 1,
    })
  })
})

describe('a request that is left as it is', () => {
  it.each<[string, RequestHead]>([
    ['without signature', put(HOST)],
    ['signed with another key', put(HOST, DATE, HASH, signedBy('AKIASOMEBODYELSE0001'))],
    [
      'that names the surrogate key as data',
      requestOf('GET', 'iam.amazonaws.com', `/?AccessKeyId=${SURROGATE.access_key_id}`, [HOST]),
    ],
    ['with a malformed query and no key', requestOf('GET', HOST[1], '/?a=%zz', [HOST])],
    ['outside of the scope', { ...put(HOST, DATE, HASH, signedBy(SURROGATE.access_key_id)), host: 'example.com' }],
    ['without TLS', { ...put(HOST, DATE, HASH, signedBy(SURROGATE.access_key_id)), scheme: 'http' }],
  ])('%s', async (_, head) => {
    expect(await resignAws([OURS], head, null)).toEqual({ head, body: null, masked: 0, names: [], refused: null })
  })
})

describe('a request that is refused', () => {
  const presigned = (more: string, keyId = SURROGATE.access_key_id) =>
    requestOf(
      'GET',
      HOST[1],
      `/key?X-Amz-Algorithm=AWS4-HMAC-SHA256&X-Amz-Credential=${keyId}/20250314/us-east-1/s3/aws4_request&X-Amz-Date=20250314T150926Z&X-Amz-SignedHeaders=host&X-Amz-Signature=00${more}`,
      [HOST],
    )
  const ok = signedBy(SURROGATE.access_key_id)

  it.each<[string, RequestHead, RegExp]>([
    ['SigV4A', put(HOST, DATE, HASH, signedBy(SURROGATE.access_key_id, 'host', 'AWS4-ECDSA-P256-SHA256')), /4A is not supported/],
    [
      'presigned SigV4A',
      { ...presigned(''), target: presigned('').target.replace('HMAC-SHA256', 'ECDSA-P256-SHA256') },
      /4A is not supported/,
    ],
    ['Version 2', put(HOST, DATE, ['Authorization', `AWS ${SURROGATE.access_key_id}:abc=`]), /not of Version 4/],
    [
      'presigned Version 2',
      requestOf('GET', HOST[1], `/key?AWSAccessKeyId=${SURROGATE.access_key_id}&Signature=x`, [HOST]),
      /not of Version 4/,
    ],
    ['a signature without host', put(HOST, DATE, HASH, signedBy(SURROGATE.access_key_id, 'x-amz-date')), /host/],
    ['no date', put(HOST, HASH, ok), /no date/],
    ['a malformed date', put(HOST, HASH, ['x-amz-date', 'today'], ok), /malformed/],
    ['another date than the credential', put(HOST, HASH, ['x-amz-date', '20250315T000000Z'], ok), /date/],
    ['two Authorization headers', put(HOST, DATE, HASH, ok, ['authorization', 'Bearer x']), /several Authorization/],
    ['two hashes', put(HOST, DATE, HASH, HASH, ok), /several x-amz-content-sha256/],
    ['an event stream', put(HOST, DATE, ['x-amz-content-sha256', 'STREAMING-AWS4-HMAC-SHA256-EVENTS'], ok), /not supported/],
    ['a foreign session token', put(HOST, DATE, HASH, ['x-amz-security-token', 'theirs'], ok), /session token/],
    [
      'a malformed credential',
      put(HOST, DATE, HASH, [
        'Authorization',
        `AWS4-HMAC-SHA256 Credential=${SURROGATE.access_key_id}, SignedHeaders=host, Signature=0`,
      ]),
      /Credential/,
    ],
    ['more fields than known', put(HOST, DATE, HASH, [ok[0], `${ok[1]}, Extra=1`]), /malformed/],
    ['a key that only contains the surrogate', put(HOST, DATE, HASH, signedBy(`X${SURROGATE.access_key_id}`)), /Credential/],
    ['signatures in header and query', { ...presigned(''), headers: [HOST, DATE, HASH, ok] }, /both/],
    ['a presigned parameter twice', presigned('&x-amz-date=20250314T150926Z'), /same name/],
    ['a presigned foreign session token', presigned('&X-Amz-Security-Token=theirs'), /session token/],
    [
      'a presigned address with signed chunks',
      presigned('&X-Amz-Content-Sha256=STREAMING-AWS4-HMAC-SHA256-PAYLOAD'),
      /not supported/,
    ],
    ['a path that cannot be decoded', { ...put(HOST, DATE, HASH, ok), target: '/%zz' }, /percent-encoding/],
  ])('%s', async (_, head, reason) => {
    const result = await resignAws([OURS], head, null)
    expect(result.refused).toMatch(reason)
    expect(result).toMatchObject({ head, masked: 0 })
    expect(result.refused).not.toContain(VECTOR_KEYS.access_key_id)
  })

  it('a body without hash that is too long to be held', async () => {
    const part = Buffer.alloc(1024 * 1024)
    const endless = Readable.from(
      (function* () {
        for (;;) yield part
      })(),
    )
    const request = put(HOST, DATE, signedBy(SURROGATE.access_key_id, 'host;x-amz-date'))
    expect((await resignAws([OURS], request, endless)).refused).toMatch(/long body/)
    expect((await resignAws([OURS], request, Buffer.alloc(MAX_HASHED_BODY))).refused).toBeNull()
  })

  it('a date in the future, and an address that is valid for more than a day', async () => {
    const later = new Date(Date.now() + 3_600_000).toISOString().replaceAll(/[-:]|\.\d{3}/g, '')
    const day = later.slice(0, 8)
    const credential = `${SURROGATE.access_key_id}/${day}/us-east-1/s3/aws4_request`
    const authorization = `AWS4-HMAC-SHA256 Credential=${credential}, SignedHeaders=host;x-amz-date, Signature=00`
    const signed = await resignAws([OURS], put(HOST, ['x-amz-date', later], HASH, ['authorization', authorization]), null)
    expect(signed.refused).toMatch(/future/)
    const today = '20250314T150926Z'
    const query = `X-Amz-Algorithm=AWS4-HMAC-SHA256&X-Amz-Credential=${encodeURIComponent(credential.replace(day, '20250314'))}&X-Amz-Date=${today}&X-Amz-Expires=604800&X-Amz-SignedHeaders=host&X-Amz-Signature=00`
    expect((await resignAws([OURS], { ...put(HOST), target: `/key?${query}` }, null)).refused).toMatch(/more than a day/)
  })

  it('a real key that would add a header', async () => {
    const broken = secretOf({ ...VECTOR_KEYS, access_key_id: 'AKIA\r\nX: y' }, SURROGATE)
    expect((await resignAws([broken], put(HOST, DATE, HASH, ok), null)).refused).toMatch(/character/)
  })
})
