// Replaces real values by their surrogates in what comes back: headers, bodies, trailers and log text.
import type { Duplex, Transform } from 'node:stream'
import type { HeaderList } from '../http/message.ts'
import type { SessionSecret } from '../session.ts'
import { formsOf, keepLengths } from './forms.ts'
import { compilePatterns, type Replacement } from './replace/patterns.ts'
import { replaceInBuffer, replaceInStream } from './replace/replace.ts'
import { replaceInEncoded } from './replace/replace-encoded.ts'
import { replaceInFrames } from './replace/replace-in-frames.ts'

/** `encoding` is the Content-Encoding of what the transform gives; null: the header is removed. */
export type RedactedBody = { readonly transform: Duplex; readonly encoding: string | null } | { readonly refused: string }

export interface Redactor {
  /** True if a replacement can change the length of a body: Content-Length is then unknown. */
  readonly changesLength: boolean
  redactHeaders(headers: HeaderList): HeaderList
  redactText(text: string): string
  /** `contentEncoding` is the value of the header, joined with commas if there are several. */
  body(contentEncoding: string | null): RedactedBody
  /** For the frames of a WebSocket server. It never changes a length, and a message is passed on when it is complete. */
  tunnel(): Transform
}

/** A shorter text may be an ordinary word. Masked secrets are not inserted then; a part of an AWS secret can be that short. */
export const MIN_REDACTED_LENGTH = 8

/** Null when there is nothing to redact. It compiles tables: make it once per set of secrets, not once per reply. */
export function createRedactor(secrets: readonly SessionSecret[]): Redactor | null {
  const masked = secrets.filter(({ kind }) => kind === 'masked').flatMap(formsOfSecret)
  const aws = secrets.filter(({ kind }) => kind === 'aws').flatMap(formsOfSecret)
  if (masked.length + aws.length === 0) return null
  const exact = compilePatterns([...masked, ...aws])
  // Clients of S3 need Content-Length, and never use a key that a body contains.
  const inBody = aws.length === 0 ? exact : compilePatterns([...masked, ...keepLengths(aws)])
  const redact = (text: string, encoding: 'utf8' | 'latin1') => {
    const bytes = Buffer.from(text, encoding)
    return exact.find(bytes, 0) === null ? text : replaceInBuffer(exact, bytes).toString(encoding)
  }
  return {
    changesLength: inBody.changesLength,
    redactHeaders: headers => headers.map(([name, value]) => [redact(name, 'latin1'), redact(value, 'latin1')] as const),
    redactText: text => redact(text, 'utf8'),
    body(contentEncoding) {
      const encoding = contentEncoding?.trim().toLowerCase() ?? ''
      if (encoding === '' || encoding === 'identity') return { transform: replaceInStream(inBody), encoding: null }
      const transform = replaceInEncoded(encoding, inBody)
      // SECURITY: a value in a body that cannot be read would reach the sandbox.
      if (transform === null) return { refused: 'the reply has a content encoding that cannot be searched for secrets' }
      return { transform, encoding: null }
    },
    tunnel: () => replaceInFrames(exact.changesLength ? compilePatterns(keepLengths([...masked, ...aws])) : exact),
  }
}

const formsOfSecret = (secret: SessionSecret): Replacement[] =>
  valuesOfSecret(secret)
    .filter(([value]) => value.length >= MIN_REDACTED_LENGTH)
    .flatMap(([value, surrogate]) => formsOf(value, surrogate))

/** Compiled once per set of secrets. */
const REDACTORS = new WeakMap<readonly SessionSecret[], Redactor | null>()

/** The redactor of these secrets; the same one for the same array. */
export function redactorOf(secrets: readonly SessionSecret[]): Redactor | null {
  const known = REDACTORS.get(secrets)
  if (known !== undefined) return known
  const made = createRedactor(secrets)
  REDACTORS.set(secrets, made)
  return made
}

/** Values with their surrogates. After a rotation a secret can have a session token for which the sandbox has no surrogate. */
function valuesOfSecret(secret: SessionSecret): [value: string, surrogate: string][] {
  if (secret.kind === 'masked') return [[secret.value, secret.surrogate]]
  const { value, surrogate } = secret
  const pairs: [string, string][] = [
    [value.access_key_id, surrogate.access_key_id],
    [value.secret_access_key, surrogate.secret_access_key],
  ]
  if (value.session_token !== undefined) {
    pairs.push([value.session_token, surrogate.session_token ?? '-'.repeat(value.session_token.length)])
  }
  return pairs
}
