// What requests signed in a header and presigned addresses have in common: results, signed headers, hash of the payload.
import type { Transform } from 'node:stream'
import { type RequestHead, valuesOf } from '../../http/message.ts'
import type { SessionSecret } from '../../session.ts'
import { hasHeader } from './canonical.ts'

export type AwsSecret = Extract<SessionSecret, { kind: 'aws' }>

/** How a request is signed again. Making one has checked everything that the signature needs but the body. */
export interface Resigning {
  /** Of the secret. */
  readonly name: string
  /** True if the signature has a hash that only the body gives. */
  readonly needsBody: boolean
  /** `body` is the whole body, or empty if it is not needed. */
  sign(body: Buffer): SignedHead
}

export interface SignedHead {
  readonly head: RequestHead
  /** The body has to pass this transform, which keeps its length and fails if it cannot sign; null: it is sent as it is. */
  readonly chunks: Transform | null
}

const PAYLOAD_KINDS = [
  'UNSIGNED-PAYLOAD',
  'STREAMING-UNSIGNED-PAYLOAD-TRAILER',
  'STREAMING-AWS4-HMAC-SHA256-PAYLOAD',
  'STREAMING-AWS4-HMAC-SHA256-PAYLOAD-TRAILER',
]
/** The connections on both sides have their own. No service requires their signature. */
const HOP_BY_HOP = new Set(['connection', 'expect', 'keep-alive', 'te', 'trailer', 'transfer-encoding', 'upgrade'])

/** The names that the sandbox signed and the request still has, sorted; with the session token if there is one. */
export function headersToSign(head: RequestHead, given: readonly string[]): string[] {
  const names = given.map(name => (name === ':authority' ? 'host' : name.toLowerCase()))
  // SECURITY: without the host in it, a signature is valid for every server of the service.
  if (!names.includes('host')) throw new Error('its signature does not include the host')
  const kept = names.filter(name => hasHeader(head, name) && !HOP_BY_HOP.has(name))
  const token = hasHeader(head, 'x-amz-security-token') ? ['x-amz-security-token'] : []
  return [...new Set([...kept, ...token])].toSorted()
}

/** SECURITY: an unknown kind of payload may have signatures in the body, which would be those of the surrogate key. */
export function checkPayloadHash(value: string): void {
  if (!/^[0-9a-f]{64}$/.test(value) && !PAYLOAD_KINDS.includes(value)) throw new Error('its kind of payload is not supported')
}

export function checkAlgorithm(algorithm: string | undefined): void {
  if (algorithm === 'AWS4-ECDSA-P256-SHA256') throw new Error('Signature Version 4A is not supported')
  if (algorithm !== 'AWS4-HMAC-SHA256') throw new Error('its signature is not of Version 4')
}

const AHEAD_MS = 15 * 60_000

/** SECURITY: a signature for a later date would be valid after the session, for whoever receives it. AWS refuses dates that are long past. */
export function checkTime(time: string, now = Date.now()): void {
  const at = Date.parse(time.replace(/^(\d{4})(\d\d)(\d\d)T(\d\d)(\d\d)(\d\d)Z$/, '$1-$2-$3T$4:$5:$6Z'))
  if (Number.isNaN(at) || at > now + AHEAD_MS) throw new Error('its date is in the future')
}

export function singleValue(head: RequestHead, name: string): string | null {
  const values = valuesOf(head.headers, name)
  if (values.length > 1) throw new Error(`it has several ${name} headers`)
  return values[0]?.trim() ?? null
}
