// Signatures of AWS Signature Version 4, for requests and for the parts of a chunked body.
import { createHmac } from 'node:crypto'
import type { AwsKeys } from '../../session.ts'
import { sha256 } from './canonical.ts'

export const ALGORITHM = 'AWS4-HMAC-SHA256'
const EMPTY_HASH = sha256('')

/** What a credential says besides the key: 20130524/us-east-1/s3/aws4_request. */
export interface CredentialScope {
  readonly keyId: string
  readonly date: string
  readonly region: string
  readonly service: string
}

export interface Signer {
  /** Of the real key, as it stands in Authorization or X-Amz-Credential. */
  readonly credential: string
  signRequest(canonicalRequest: string): string
  /** `previous` is the signature of the chunk before, or of the request. */
  signChunk(previous: string, data: Buffer): string
  signTrailer(previous: string, canonicalTrailer: string): string
}

/** `time` is the date and time of the request: 20130524T000000Z. */
export function createSigner(keys: AwsKeys, { date, region, service }: CredentialScope, time: string): Signer {
  const scope = `${date}/${region}/${service}/aws4_request`
  const key = [date, region, service, 'aws4_request'].reduce<string | Buffer>(hmac, `AWS4${keys.secret_access_key}`)
  const sign = (...lines: string[]) => hmac(key, lines.join('\n')).toString('hex')
  return {
    credential: `${keys.access_key_id}/${scope}`,
    signRequest: canonicalRequest => sign(ALGORITHM, time, scope, sha256(canonicalRequest)),
    signChunk: (previous, data) => sign(`${ALGORITHM}-PAYLOAD`, time, scope, previous, EMPTY_HASH, sha256(data)),
    signTrailer: (previous, trailer) => sign(`${ALGORITHM}-TRAILER`, time, scope, previous, sha256(trailer)),
  }
}

const hmac = (key: string | Buffer, text: string): Buffer => createHmac('sha256', key).update(text).digest()

/** AKIA…/20130524/us-east-1/s3/aws4_request; null if it is not of this form. */
export function parseCredential(text: string): CredentialScope | null {
  const [, keyId, date, region, service] =
    /^([^/\s]+)\/(\d{8})\/([A-Za-z0-9-]{1,64})\/([A-Za-z0-9._-]{1,64})\/aws4_request$/.exec(text) ?? []
  if (keyId === undefined || date === undefined || region === undefined || service === undefined) return null
  return { keyId, date, region, service }
}
