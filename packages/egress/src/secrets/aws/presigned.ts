// Presigned addresses of AWS: the signature and what it needs are in the query.
import type { RequestHead } from '../../http/message.ts'
import { canonicalRequest, encode, isS3, queryItems, sha256, splitTarget } from './canonical.ts'
import {
  type AwsSecret,
  checkAlgorithm,
  checkPayloadHash,
  checkTime,
  headersToSign,
  type Resigning,
  singleValue,
} from './request.ts'
import { createSigner, parseCredential } from './sign.ts'

/** SECURITY: whoever receives the address can use it for so long, also after the session. */
const MAX_EXPIRES_SECONDS = 86_400

/** The parameters keep their order and their encoding; key, session token, signed headers and signature are exchanged. */
export function resignPresigned(secret: AwsSecret, head: RequestHead): Resigning {
  const [path, query] = splitTarget(head.target)
  const given = parametersOf(query)
  checkAlgorithm(given.get('x-amz-algorithm'))
  const scope = parseCredential(given.get('x-amz-credential') ?? '')
  if (scope === null || scope.keyId !== secret.surrogate.access_key_id) throw new Error('its X-Amz-Credential is malformed')
  const time = given.get('x-amz-date') ?? ''
  if (!/^\d{8}T\d{6}Z$/.test(time) || !time.startsWith(scope.date)) throw new Error('its X-Amz-Date is malformed')
  checkTime(time)
  if (Number(given.get('x-amz-expires') ?? 0) > MAX_EXPIRES_SECONDS) throw new Error('it is presigned for more than a day')
  if (!given.has('x-amz-signature')) throw new Error('it has no X-Amz-Signature')
  const token = given.get('x-amz-security-token')
  if (singleValue(head, 'x-amz-security-token') !== null)
    throw new Error('it has a session token in a header and a signature in the query')
  if (token !== undefined && token !== secret.surrogate.session_token)
    throw new Error('it has a session token that is not the one of its key')

  const names = headersToSign(head, (given.get('x-amz-signedheaders') ?? '').split(';'))
  const signer = createSigner(secret.value, scope, time)
  const changes = new Map<string, string | null>([
    ['x-amz-credential', signer.credential],
    ['x-amz-security-token', secret.value.session_token ?? null],
    ['x-amz-signedheaders', names.join(';')],
    ['x-amz-signature', null],
  ])
  const target = `${path}?${withParameters(query, changes)}`
  const hash = payloadHashOf(head, given, scope.service)
  return {
    name: secret.name,
    needsBody: hash === null,
    sign(body) {
      const parts = { service: scope.service, signedHeaders: names, payloadHash: hash ?? sha256(body) }
      const signature = signer.signRequest(canonicalRequest({ ...head, target }, parts))
      return { head: { ...head, target: `${target}&X-Amz-Signature=${signature}` }, chunks: null }
    },
  }
}

/** S3 signs no body of a presigned request unless the request says so; null: the hash of the body is needed. */
function payloadHashOf(head: RequestHead, parameters: ReadonlyMap<string, string>, service: string): string | null {
  const given = parameters.get('x-amz-content-sha256') ?? singleValue(head, 'x-amz-content-sha256')
  if (given === null) return isS3(service) ? 'UNSIGNED-PAYLOAD' : null
  if (given.startsWith('STREAMING-')) throw new Error('its kind of payload is not supported')
  checkPayloadHash(given)
  return given
}

/** By name in lower case. SECURITY: a server may read another one of two parameters with the same name. */
function parametersOf(query: string): Map<string, string> {
  const parameters = new Map<string, string>()
  for (const { name, value } of queryItems(query)) {
    const key = name.toLowerCase()
    if (key.startsWith('x-amz-') && parameters.has(key)) throw new Error('it has two X-Amz parameters of the same name')
    parameters.set(key, value)
  }
  return parameters
}

/** Null removes a parameter. One that is not there is added. */
function withParameters(query: string, changes: ReadonlyMap<string, string | null>): string {
  const items = queryItems(query)
  const kept = items.flatMap(({ raw, name }) => {
    const value = changes.get(name.toLowerCase())
    if (value === undefined) return [raw]
    return value === null ? [] : [`${encode(name)}=${encode(value)}`]
  })
  const present = new Set(items.map(({ name }) => name.toLowerCase()))
  const added = changes.get('x-amz-security-token')
  if (typeof added === 'string' && !present.has('x-amz-security-token')) kept.push(`X-Amz-Security-Token=${encode(added)}`)
  return kept.join('&')
}
