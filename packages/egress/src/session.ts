// What the egress process knows of a session. The daemon sends it over the control socket, whole, and again whenever it changes.
import { Policy, PolicyMode, SecretSettings } from '@sandglass/contract'
import { z } from 'zod'

/** How the runner of a session is reached: by dialling a socket, by one carrier with many streams, or by a carrier that the daemon relays. */
export const Endpoint = z.discriminatedUnion('kind', [
  z.strictObject({ kind: z.literal('socket'), path: z.string() }),
  z.strictObject({ kind: z.literal('carrier'), path: z.string() }),
  z.strictObject({ kind: z.literal('relay') }),
])
export type Endpoint = z.infer<typeof Endpoint>

/** The value of an AWS secret; `surrogates` of a session secret has the same fields. */
export const AwsKeys = z.strictObject({
  access_key_id: z.string().min(1),
  secret_access_key: z.string().min(1),
  session_token: z.string().min(1).optional(),
})
export type AwsKeys = z.infer<typeof AwsKeys>

/** A secret of a session. SECURITY: the value is in no log, error or reply of this process. */
export const SessionSecret = z.discriminatedUnion('kind', [
  z.strictObject({
    ...SecretSettings.shape,
    kind: z.literal('masked'),
    name: z.string(),
    value: z.string(),
    surrogate: z.string(),
  }),
  z.strictObject({ ...SecretSettings.shape, kind: z.literal('aws'), name: z.string(), value: AwsKeys, surrogate: AwsKeys }),
])
export type SessionSecret = z.infer<typeof SessionSecret>

export const NamedPolicy = z.strictObject({ name: z.string(), policy: Policy })
export type NamedPolicy = z.infer<typeof NamedPolicy>

export const EgressSession = z.strictObject({
  id: z.string(),
  name: z.string(),
  endpoint: Endpoint,
  /** Permits the endpoint's requests and nothing else of the runner. */
  token: z.string(),
  network: z.enum(['allowlist', 'nat']),
  /** Instead of the modes of the policies. */
  mode: PolicyMode.nullable(),
  /** With everything that they include. */
  policies: z.array(NamedPolicy),
  secrets: z.array(SessionSecret),
  /** Fingerprint of the certificate authority that the session trusts. */
  ca: z.string(),
  /** Folder of the session's network log. */
  logFolder: z.string(),
})
export type EgressSession = z.infer<typeof EgressSession>
