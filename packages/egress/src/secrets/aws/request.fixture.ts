// Requests to AWS and the secret that signs them, for tests.
import type { HeaderList, RequestHead } from '../../http/message.ts'
import type { AwsKeys, SessionSecret } from '../../session.ts'

export const EMPTY_HASH = 'e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855'
export const SURROGATE = { access_key_id: 'AKIASURROGATE0000001', secret_access_key: 'surrogateSecretAccessKeyForVectors012345' }
export const SESSION_SURROGATE = { ...SURROGATE, access_key_id: 'ASIASURROGATE0000002', session_token: 'S'.repeat(512) }

export const secretOf = (value: AwsKeys, surrogate: AwsKeys, scopes = ['*.amazonaws.com']): SessionSecret => ({
  kind: 'aws',
  name: 'cloud',
  env: null,
  scopes,
  headers: ['authorization', 'x-amz-security-token'],
  query: false,
  body: false,
  allow_foreign_credentials: false,
  value,
  surrogate,
})

export const requestOf = (method: string, host: string, target: string, headers: HeaderList): RequestHead => ({
  version: '1.1',
  method,
  scheme: 'https',
  host,
  port: 443,
  target,
  headers,
  upgrade: null,
})

export const authorizationOf = ({ headers }: RequestHead) =>
  headers.find(([name]) => name.toLowerCase() === 'authorization')?.[1] ?? ''
export const signatureOf = (head: RequestHead) => /Signature=([0-9a-f]{64})/.exec(authorizationOf(head) || head.target)?.[1]
