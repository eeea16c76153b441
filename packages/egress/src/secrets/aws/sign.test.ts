import { describe, expect, it } from 'vitest'
import type { HeaderList, RequestHead } from '../../http/message.ts'
import type { AwsKeys } from '../../session.ts'
import { type SignedVector, VECTOR_KEYS, VECTOR_SESSION_KEYS, VECTORS } from './botocore-vectors.fixture.ts'
import { EMPTY_HASH, requestOf, SESSION_SURROGATE, SURROGATE, secretOf, signatureOf } from './request.fixture.ts'
import { resignAws } from './resign.ts'

const EXAMPLE = { access_key_id: 'AKIAIOSFODNN7EXAMPLE', secret_access_key: 'wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY' }

/** A request as an SDK with the surrogate key sends it. Its signature is of no importance. */
function asSandboxSends(real: AwsKeys, surrogate: AwsKeys, { method, host, target, headers }: SignedVector): RequestHead {
  const exchange = (text: string) =>
    text
      .replaceAll(real.access_key_id, surrogate.access_key_id)
      .replaceAll(real.session_token ?? 'no token', surrogate.session_token ?? '')
      .replaceAll(encodeURIComponent(real.session_token ?? 'no token'), surrogate.session_token ?? '')
      .replace(/Signature=[0-9a-f]{64}/, `Signature=${'0'.repeat(64)}`)
  return requestOf(
    method,
    host,
    exchange(target),
    headers.map(([name, value]) => [name, exchange(value)] as const),
  )
}

describe('signatures that botocore makes', () => {
  it.each(VECTORS)('$name', async vector => {
    const isSession = JSON.stringify(vector).includes(VECTOR_SESSION_KEYS.access_key_id)
    const [real, surrogate] = isSession ? [VECTOR_SESSION_KEYS, SESSION_SURROGATE] : [VECTOR_KEYS, SURROGATE]
    const sent = asSandboxSends(real, surrogate, vector)
    expect(JSON.stringify(sent)).not.toContain(real.access_key_id)
    const result = await resignAws([secretOf(real, surrogate)], sent, vector.body === '' ? null : Buffer.from(vector.body))
    expect(result).toMatchObject({ refused: null, masked: 1, names: ['cloud'] })
    expect(result.head.headers).toEqual(vector.headers)
    expect(result.head.target).toBe(vector.target)
    expect(result.body).toEqual(vector.body === '' ? null : Buffer.from(vector.body))
  })
})

/** Signs a request whose Authorization names these headers, with the keys of AWS's own examples. */
async function resignExample(method: string, target: string, headers: HeaderList, signed: string): Promise<RequestHead> {
  const credential = `${SURROGATE.access_key_id}/20130524/us-east-1/s3/aws4_request`
  const authorization = `AWS4-HMAC-SHA256 Credential=${credential},SignedHeaders=${signed},Signature=${'0'.repeat(64)}`
  const head = requestOf(method, 'examplebucket.s3.amazonaws.com', target, [...headers, ['Authorization', authorization]])
  const result = await resignAws([secretOf(EXAMPLE, SURROGATE)], head, null)
  expect(result.refused).toBeNull()
  return result.head
}

// From the pages "Signature Calculations for the Authorization Header" and "Using Query Parameters" of the S3 API reference.
describe('signatures that AWS publishes as examples', () => {
  const host = ['Host', 'examplebucket.s3.amazonaws.com'] as const
  const date = ['x-amz-date', '20130524T000000Z'] as const
  const hash = ['x-amz-content-sha256', EMPTY_HASH] as const

  it('a part of an object', async () => {
    const head = await resignExample(
      'GET',
      '/test.txt',
      [host, ['Range', 'bytes=0-9'], hash, date],
      'host;range;x-amz-content-sha256;x-amz-date',
    )
    expect(signatureOf(head)).toBe('f0e8bdb87c964420e857bd35b5d6ed310bd44f0170aba48dd91039c6036bdb41')
  })

  it('an upload that is dated by Date', async () => {
    const headers = [
      host,
      ['Date', 'Fri, 24 May 2013 00:00:00 GMT'],
      date,
      ['x-amz-storage-class', 'REDUCED_REDUNDANCY'],
      ['x-amz-content-sha256', '44ce7dd67c959e0d3524ffac1771dfbba87d2b6b4b4e99e42034a8b803f8b072'],
    ] as const
    const signed = 'date;host;x-amz-content-sha256;x-amz-date;x-amz-storage-class'
    const head = await resignExample('PUT', '/test%24file.text', headers, signed)
    expect(signatureOf(head)).toBe('98ad721746da40c64f1a55b78f14c238d841ea1380cd77a1b5971af0ece108bd')
  })

  it('a parameter without value, and a listing', async () => {
    const signed = 'host;x-amz-content-sha256;x-amz-date'
    const lifecycle = await resignExample('GET', '/?lifecycle', [host, date, hash], signed)
    expect(signatureOf(lifecycle)).toBe('fea454ca298b7da1c68078a5d1bdbfbbe0d65c699e0f91ac7a200a0136783543')
    const list = await resignExample('GET', '/?max-keys=2&prefix=J', [host, date, hash], signed)
    expect(signatureOf(list)).toBe('34b48302e7b5fa45bde8084f4b7868a86f0a534bc59db6670ed5711ef69dc6f7')
  })

  it('a presigned address', async () => {
    const target =
      '/test.txt?X-Amz-Algorithm=AWS4-HMAC-SHA256&X-Amz-Credential=AKIASURROGATE0000001%2F20130524%2Fus-east-1%2Fs3%2Faws4_request' +
      `&X-Amz-Date=20130524T000000Z&X-Amz-Expires=86400&X-Amz-SignedHeaders=host&X-Amz-Signature=${'0'.repeat(64)}`
    const result = await resignAws([secretOf(EXAMPLE, SURROGATE)], requestOf('GET', host[1], target, [host]), null)
    expect(signatureOf(result.head)).toBe('aeeed9bbccd4d02ee5c0109b86d86835f995330da4c265957d157751f604d404')
  })

  it('the hash of a body, which the request does not have', async () => {
    const iam = { access_key_id: 'AKIDEXAMPLE', secret_access_key: 'wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY' }
    const credential = `${SURROGATE.access_key_id}/20150830/us-east-1/iam/aws4_request`
    const head = requestOf('GET', 'iam.amazonaws.com', '/?Action=ListUsers&Version=2010-05-08', [
      ['Host', 'iam.amazonaws.com'],
      ['Content-Type', 'application/x-www-form-urlencoded; charset=utf-8'],
      ['X-Amz-Date', '20150830T123600Z'],
      ['Authorization', `AWS4-HMAC-SHA256 Credential=${credential}, SignedHeaders=content-type;host;x-amz-date, Signature=00`],
    ])
    const result = await resignAws([secretOf(iam, SURROGATE)], head, null)
    expect(signatureOf(result.head)).toBe('5d672d79c15b13162d9279b0855cfba6789a8edb4c82c400e06b5924a6f2b5d7')
  })
})
