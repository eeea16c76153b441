// Signs requests again that a sandbox signed with a surrogate key of AWS.
import { pipeline, type Transform } from 'node:stream'
import { type OutgoingBody, type RequestHead, valuesOf } from '../../http/message.ts'
import type { SessionSecret } from '../../session.ts'
import { secretsInScope } from '../scope.ts'
import { queryItems, splitTarget } from './canonical.ts'
import { resignHeader } from './header-signed.ts'
import { resignPresigned } from './presigned.ts'
import type { AwsSecret, Resigning } from './request.ts'

export interface ResignedRequest {
  readonly head: RequestHead
  readonly body: OutgoingBody
  /** 1 if the request was signed again, otherwise 0. */
  readonly masked: number
  /** Name of the secret that was used. */
  readonly names: readonly string[]
  /** SECURITY: why the request must not be sent; null if it may be. */
  readonly refused: string | null
}

/** A body without a hash is held in memory until it is hashed. */
export const MAX_HASHED_BODY = 16 * 1024 * 1024

/** X-Amz-Credential, and the key of Signature Version 2. Other parameters may name a key as data. */
const SIGNING_PARAMETER = /^(x-amz-credential|awsaccesskeyid)$/i

/**
 * Returns head and body unchanged for a request that no surrogate key in scope signs. The head is final: a change of a signed header or of the
 * query after this makes the signature invalid. So this comes after `maskRequest` and `requestHeadersForRedaction`. Date, region, service and
 * signed headers stay. A body without a hash is read into memory; signed chunks of a body are signed again while it is sent.
 *
 * The signature of the sandbox is not checked: everything in the sandbox knows the surrogate key. A form with a signed policy (POST to a
 * bucket) is not recognised; it goes out with the surrogate key, and the service refuses it.
 */
export async function resignAws(
  secrets: readonly SessionSecret[],
  head: RequestHead,
  body: OutgoingBody,
): Promise<ResignedRequest> {
  const unsent = (why: string | null): ResignedRequest => ({ head, body, masked: 0, names: [], refused: why })
  try {
    const resigning = planResigning(secrets, head)
    if (resigning === null) return unsent(null)
    const content = resigning.needsBody ? await readAll(body) : null
    if (content?.isTooLong)
      return unsent('the request to AWS cannot be signed again: it has a long body without x-amz-content-sha256')
    const signed = resigning.sign(content?.data ?? Buffer.alloc(0))
    const complete = content === null || body === null ? body : content.data
    return {
      head: signed.head,
      body: signed.chunks === null ? complete : pass(complete, signed.chunks),
      masked: 1,
      names: [resigning.name],
      refused: null,
    }
  } catch (error) {
    // SECURITY: a request that is not understood is never sent on.
    return unsent(`the request to AWS cannot be signed again: ${error instanceof Error ? error.message : 'unknown error'}`)
  }
}

function planResigning(secrets: readonly SessionSecret[], head: RequestHead): Resigning | null {
  const keys = secrets.filter(secret => secret.kind === 'aws')
  for (const secret of secretsInScope(keys, head)) {
    const resigning = resign(secret, head)
    if (resigning !== null) return resigning
  }
  return null
}

function resign(secret: AwsSecret, head: RequestHead): Resigning | null {
  const { access_key_id: keyId } = secret.surrogate
  const authorizations = valuesOf(head.headers, 'authorization')
  const isHeader = authorizations.some(value => value.includes(keyId))
  const isQuery = decodeValid(head.target).includes(keyId) && namesSigner(head.target, keyId)
  if (!isHeader && !isQuery) return null
  const { access_key_id, session_token = '-' } = secret.value
  if (!/^[\x21-\x7e]+$/.test(access_key_id + session_token))
    throw new Error('its real key has a character that a header cannot have')
  if (isHeader && isQuery) throw new Error('it is signed both in a header and in the query')
  if (authorizations.length > 1) throw new Error('it has several Authorization headers')
  return isHeader ? resignHeader(secret, head, authorizations[0] ?? '') : resignPresigned(secret, head)
}

const namesSigner = (target: string, keyId: string): boolean =>
  queryItems(splitTarget(target)[1]).some(({ name, value }) => SIGNING_PARAMETER.test(name) && value.includes(keyId))

/** Only to look for a key: invalid percent-encoding stays as it is. */
const decodeValid = (text: string): string =>
  text.replaceAll(/%([0-9A-Fa-f]{2})/g, (_, hex: string) => String.fromCharCode(Number.parseInt(hex, 16)))

async function readAll(body: OutgoingBody): Promise<{ data: Buffer; isTooLong: boolean }> {
  const parts: Uint8Array[] = []
  let length = 0
  for await (const part of body instanceof Uint8Array ? [body] : (body ?? [])) {
    length += part.length
    if (length > MAX_HASHED_BODY) return { data: Buffer.alloc(0), isTooLong: true }
    parts.push(part)
  }
  return { data: Buffer.concat(parts), isTooLong: false }
}

/** The body as the transform gives it. Whoever reads it sees an error of either. */
function pass(body: OutgoingBody, transform: Transform): Transform {
  if (body instanceof Uint8Array || body === null) {
    transform.end(body ?? Buffer.alloc(0))
    return transform
  }
  return pipeline(body, transform, () => {
    // The reader of the transform sees the error.
  })
}
