// Surrogates: what a sandbox gets in place of a secret. Programs that check the form of a credential accept them; no server does.
import { randomBytes } from 'node:crypto'
import { SandglassError } from '@sandglass/contract/tables'
import type { AwsKeys } from '../session.ts'
import { makeJwtSurrogate } from './jwt-surrogate.ts'
import { ALPHANUMERIC, alphabetOf, BASE64, type RandomBytes, randomText, UPPER_DIGITS } from './random-text.ts'

/** Beginnings by which clients and secret scanners recognise a credential. The longest that fits is kept. */
const PREFIXES = [
  'github_pat_',
  'ghp_',
  'gho_',
  'ghu_',
  'ghs_',
  'ghr_',
  'glpat-',
  'npm_',
  'pypi-',
  'sk-ant-oat01-',
  'sk-ant-api03-',
  'sk-ant-',
  'sk-proj-',
  'sk-',
  'xoxb-',
  'xoxp-',
  'AKIA',
  'ASIA',
].toSorted((a, b) => b.length - a.length)

const MIN_RANDOM_CHARACTERS = 8
/** Eight digits are enough; eight characters of - and _ are not. */
const MIN_RANDOM_BITS = 26
const AWS_SESSION_TOKEN_LENGTH = 512

/**
 * A surrogate with the length, the known prefix and the character classes of the value. A JWT gives a JWT, which may have another length.
 *
 * SECURITY: throws if there are too few possible surrogates. Such a text occurs by chance, and the real value would then be inserted where no
 * program meant it.
 */
export function makeSurrogate(value: string, random: RandomBytes = randomBytes): string {
  const jwt = makeJwtSurrogate(value, random)
  if (jwt !== null) return jwt
  const prefix = PREFIXES.find(candidate => value.startsWith(candidate)) ?? ''
  const rest = value.slice(prefix.length)
  const alphabet = alphabetOf(rest)
  if (rest.length < MIN_RANDOM_CHARACTERS || rest.length * Math.log2(alphabet.length) < MIN_RANDOM_BITS) throw tooShort(prefix)
  let surrogate: string
  do surrogate = prefix + randomText(alphabet, rest.length, random)
  while (surrogate === value)
  return surrogate
}

/** Surrogates of an AWS key pair, in the form of AWS's own. The session token has a fixed length, as real ones vary from call to call. */
export function makeAwsSurrogates(keys: AwsKeys, random: RandomBytes = randomBytes): AwsKeys {
  const isTemporary = keys.access_key_id.startsWith('ASIA') || keys.session_token !== undefined
  return {
    access_key_id: (isTemporary ? 'ASIA' : 'AKIA') + randomText(UPPER_DIGITS, 16, random),
    secret_access_key: randomText(BASE64, 40, random),
    ...(keys.session_token === undefined ? {} : { session_token: randomText(ALPHANUMERIC, AWS_SESSION_TOKEN_LENGTH, random) }),
  }
}

const tooShort = (prefix: string) =>
  new SandglassError('INVALID_REQUEST', {
    issue:
      prefix === ''
        ? `the value of the secret is too short or too uniform: it needs at least ${MIN_RANDOM_CHARACTERS} characters, with letters or digits`
        : `the value of the secret is too short or too uniform: it needs at least ${MIN_RANDOM_CHARACTERS} characters after ${prefix}, with letters or digits`,
  })
