// Replaces the surrogates in a request by the real values, where the scope and the settings of each secret permit it.
import { type RequestHead, valuesOf } from '../http/message.ts'
import type { SessionSecret } from '../session.ts'
import { maskHeaders } from './mask-headers.ts'
import { maskQuery } from './mask-query.ts'
import { MIN_REDACTED_LENGTH } from './redact.ts'
import type { Replacement } from './replace/patterns.ts'
import { secretsInScope } from './scope.ts'

type MaskedSecret = Extract<SessionSecret, { kind: 'masked' }>

export interface MaskedRequest {
  readonly head: RequestHead
  /** How many surrogates were replaced in headers and query. */
  readonly masked: number
  /** Names of headers that were removed, in lower case, because they held another credential. */
  readonly stripped: readonly string[]
  /** Names of the secrets whose values the head contains. */
  readonly names: readonly string[]
  /** What to replace in the body. Empty if no secret permits it. */
  readonly bodySecrets: readonly Replacement[]
  /** True if such a replacement can change the length of the body: the caller sends it chunked, without Content-Length. */
  readonly bodyChangesLength: boolean
  /** Why the request must not be sent; null if it may be. */
  readonly refused: string | null
}

/**
 * SECURITY: the caller has checked the policy, that SNI, Host and dialled name agree, and the certificate of the upstream server. Before that,
 * a value could reach a server that the scope does not name. A surrogate outside of its scope stays in the request; no server accepts it.
 *
 * AWS secrets are not inserted here: `resignAws` signs the result of this function.
 */
export function maskRequest(secrets: readonly SessionSecret[], head: RequestHead): MaskedRequest {
  const inScope = secretsInScope(secrets, head)
  if (inScope.length === 0) return unchanged(head, null)
  const short = inScope.find(secret => secret.kind === 'masked' && secret.value.length < MIN_REDACTED_LENGTH)
  // SECURITY: the value would come back in a reply as it is. A rotation can make a value shorter than the one that the surrogate was made for.
  if (short !== undefined)
    return unchanged(head, `the value of the secret ${short.name} is too short to be redacted from replies`)
  const headers = maskHeaders(inScope, head.headers)
  if (headers.refused !== null) return unchanged(head, headers.refused)
  const masked = inScope.filter(secret => secret.kind === 'masked')
  const query = maskQuery(
    masked.filter(secret => secret.query),
    head.target,
  )
  const bodySecrets = bodyReplacements(masked, head)
  const inserted = [...headers.inserted, ...query.inserted]
  return {
    head: { ...head, target: query.target, headers: headers.headers },
    masked: inserted.length,
    stripped: headers.stripped,
    names: [...new Set(inserted)],
    bodySecrets,
    bodyChangesLength: bodySecrets.some(({ from, to }) => from.length !== to.length),
    refused: null,
  }
}

const unchanged = (head: RequestHead, refused: string | null): MaskedRequest => ({
  head,
  masked: 0,
  stripped: [],
  names: [],
  bodySecrets: [],
  bodyChangesLength: false,
  refused,
})

/**
 * Surrogates consist of characters that neither JSON nor percent-encoding changes, so that one byte string finds them in each. The value has
 * to be written as the type of the body demands. Nothing is found in a compressed body: its surrogates stay.
 */
function bodyReplacements(secrets: readonly MaskedSecret[], head: RequestHead): Replacement[] {
  const type = (valuesOf(head.headers, 'content-type')[0] ?? '').split(';', 1)[0]?.trim().toLowerCase() ?? ''
  const encode = /^application\/(.+\+)?json$/.test(type)
    ? (value: string) => JSON.stringify(value).slice(1, -1)
    : type === 'application/x-www-form-urlencoded'
      ? encodeURIComponent
      : (value: string) => value
  return secrets
    .filter(secret => secret.body)
    .map(secret => ({ from: Buffer.from(secret.surrogate), to: Buffer.from(encode(secret.value)) }))
}
