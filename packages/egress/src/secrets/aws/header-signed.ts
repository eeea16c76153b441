// Requests of AWS whose signature is in the Authorization header.
import type { RequestHead } from '../../http/message.ts'
import { canonicalRequest, sha256, withHeader } from './canonical.ts'
import { resignChunks } from './chunked-body.ts'
import {
  type AwsSecret,
  checkAlgorithm,
  checkPayloadHash,
  checkTime,
  headersToSign,
  type Resigning,
  singleValue,
} from './request.ts'
import { ALGORITHM, createSigner, parseCredential } from './sign.ts'

/** Throws for anything that is not understood completely. */
export function resignHeader(secret: AwsSecret, original: RequestHead, authorization: string): Resigning {
  const { credential, signedHeaders } = parseAuthorization(authorization)
  const scope = parseCredential(credential)
  if (scope === null || scope.keyId !== secret.surrogate.access_key_id) throw new Error('its Credential is malformed')
  const time = timeOf(original)
  if (!time.startsWith(scope.date)) throw new Error('its date is not the one of the Credential')
  checkTime(time)
  const head = withSessionToken(secret, original)
  const names = headersToSign(head, signedHeaders)
  const signer = createSigner(secret.value, scope, time)
  const given = singleValue(head, 'x-amz-content-sha256')
  if (given !== null) checkPayloadHash(given)
  return {
    name: secret.name,
    needsBody: given === null,
    sign(body) {
      const payloadHash = given ?? sha256(body)
      const signature = signer.signRequest(canonicalRequest(head, { service: scope.service, signedHeaders: names, payloadHash }))
      const value = `${ALGORITHM} Credential=${signer.credential}, SignedHeaders=${names.join(';')}, Signature=${signature}`
      return {
        head: { ...head, headers: withHeader(head.headers, 'authorization', value) },
        chunks: payloadHash.startsWith('STREAMING-AWS4-')
          ? resignChunks(signer, signature, payloadHash.endsWith('-TRAILER'))
          : null,
      }
    },
  }
}

/** AWS4-HMAC-SHA256 Credential=…, SignedHeaders=a;b, Signature=… */
function parseAuthorization(text: string): { credential: string; signedHeaders: string[] } {
  const [, algorithm = '', rest = ''] = /^\s*(\S+)\s*(.*)$/s.exec(text) ?? []
  checkAlgorithm(algorithm)
  const items = rest.split(',').map(item => item.trim())
  const field = (name: string) => items.find(item => item.startsWith(`${name}=`))?.slice(name.length + 1)
  const credential = field('Credential')
  const signedHeaders = field('SignedHeaders')
  if (items.length !== 3 || credential === undefined || signedHeaders === undefined || field('Signature') === undefined) {
    throw new Error('its Authorization header is malformed')
  }
  return { credential, signedHeaders: signedHeaders.split(';') }
}

/** From x-amz-date, or Date where that is missing. */
function timeOf(head: RequestHead): string {
  const given = singleValue(head, 'x-amz-date')
  if (given !== null) {
    if (!/^\d{8}T\d{6}Z$/.test(given)) throw new Error('its x-amz-date is malformed')
    return given
  }
  const date = Date.parse(singleValue(head, 'date') ?? '')
  if (Number.isNaN(date)) throw new Error('it has no date')
  return new Date(date).toISOString().replaceAll(/[-:]|\.\d{3}/g, '')
}

/** With the real session token, or without one if the real key has none: after a rotation only one of the two may have it. */
function withSessionToken({ surrogate, value }: AwsSecret, head: RequestHead): RequestHead {
  const given = singleValue(head, 'x-amz-security-token')
  if (given !== null && given !== surrogate.session_token)
    throw new Error('it has a session token that is not the one of its key')
  return { ...head, headers: withHeader(head.headers, 'x-amz-security-token', value.session_token ?? null) }
}
