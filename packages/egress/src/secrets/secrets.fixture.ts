// Secrets and requests for tests.
import type { HeaderList, RequestHead } from '../http/message.ts'
import type { SessionSecret } from '../session.ts'

export type MaskedSecret = Extract<SessionSecret, { kind: 'masked' }>

export const REAL = 'ghp_rEaLrEaLrEaLrEaLrEaLrEaLrEaLrEaLrEaL'
export const SURROGATE = 'ghp_s0Rr0gAtEs0Rr0gAtEs0Rr0gAtEs0Rr0gAtE'

export const secret = (changes: Partial<MaskedSecret> = {}): MaskedSecret => ({
  kind: 'masked',
  name: 'token',
  env: 'TOKEN',
  scopes: ['api.example.com'],
  headers: ['authorization'],
  query: false,
  body: false,
  allow_foreign_credentials: false,
  value: REAL,
  surrogate: SURROGATE,
  ...changes,
})

export const request = (headers: HeaderList, changes: Partial<RequestHead> = {}): RequestHead => ({
  version: '1.1',
  method: 'GET',
  scheme: 'https',
  host: 'api.example.com',
  port: 443,
  target: '/',
  headers,
  upgrade: null,
  ...changes,
})

/** `data` in pieces that end at `cuts`, taken modulo its length. */
export function pieces(data: Buffer, cuts: readonly number[]): Buffer[] {
  const ends = [...cuts.map(cut => cut % (data.length + 1)), data.length].toSorted((a, b) => a - b)
  return ends.map((end, i) => data.subarray(ends[i - 1] ?? 0, end))
}
