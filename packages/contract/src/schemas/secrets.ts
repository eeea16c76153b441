// Secrets: encrypted values by name, and where they may be inserted. No reply contains a value.
import { z } from 'zod'
import { ENV_NAME, SECRET_NAME } from '../tables/ids.ts'
import { LIMITS } from '../tables/limits.ts'
import { SECRET_KINDS, SECRET_PRESETS } from '../tables/network.ts'
import { queryInt, Timestamp } from './primitives.ts'

export const SecretName = z
  .string()
  .regex(SECRET_NAME, `must be 1 to ${LIMITS.secret_name.max} of a-z, A-Z, 0-9, ., _ and -, starting with a letter`)

const Value = z
  .string()
  .min(1)
  .refine(text => text.isWellFormed() && !text.includes('\0'), 'must be text without NUL')
  .refine(
    text => new TextEncoder().encode(text).length <= LIMITS.secret_value_bytes.max,
    `must be at most ${LIMITS.secret_value_bytes.max} bytes`,
  )
  .describe(
    'the secret; it is never shown again. Of kind aws: a JSON object with access_key_id, secret_access_key and session_token',
  )

/** SECURITY: a secret for `*.com` would go to every host that an attacker registers. */
const isTooWide = (scope: string) =>
  /[*?]/.test((scope.split(/[:/]/, 1)[0] ?? '').replace(/\.$/, '').split('.').slice(-2).join('.'))

/** Variables without which shells and programs do not work, or that change what they load. */
const RESERVED_VARIABLES =
  /^(PATH|HOME|USER|LOGNAME|SHELL|PWD|TERM|TMPDIR|IFS|ENV|BASH_ENV|NODE_OPTIONS|LD_.*|.*_PROXY|SSL_CERT_FILE|NODE_EXTRA_CA_CERTS)$/i

const Scope = z
  .string()
  .max(2300)
  .regex(
    /^[a-zA-Z0-9_*?.-]+(:[0-9]{1,5})?(\/\S*)?$/,
    'must be a host name, such as api.example.com or *.example.com, with a path if wanted',
  )
  .refine(text => !isTooWide(text), 'is too wide: the last two labels of the host cannot have a wildcard')
  .overwrite(text => text.replace(/^[^/]*/, host => host.toLowerCase()))

const settings = {
  kind: z
    .enum(SECRET_KINDS)
    .describe('masked: the value replaces its surrogate; aws: requests are signed again with the real key'),
  env: z
    .string()
    .regex(ENV_NAME, 'must be a variable name')
    .refine(name => !RESERVED_VARIABLES.test(name), 'is a variable that programs need for other things')
    .describe('variable that has the surrogate in the sandbox'),
  scopes: z
    .array(Scope)
    .max(64)
    .describe('hosts that may receive the value, with an optional path: api.example.com, *.example.com, example.com/api/*'),
  headers: z
    .array(
      z
        .string()
        .regex(/^[A-Za-z0-9!#$%&'*+.^_`|~?-]{1,128}$/, 'must be a header name; * and ? are wildcards')
        .overwrite(text => text.toLowerCase()),
    )
    .max(32)
    .describe('headers in which the surrogate is replaced; * and ? are wildcards'),
  query: z.boolean().describe('also replace the surrogate in the query of the URL'),
  body: z.boolean().describe('also replace the surrogate in request bodies'),
  allow_foreign_credentials: z
    .boolean()
    .describe('leave a header that holds another credential than the surrogate; otherwise it is removed'),
}

/** SECURITY: no error quotes the value, nor the name of an unknown field, which may be the value in the wrong place. */
export const SecretSpec = z.strictObject(
  {
    value: Value,
    preset: z.enum(SECRET_PRESETS).optional().describe('settings for a well-known service; given settings override them'),
    kind: settings.kind.optional(),
    env: settings.env.optional(),
    scopes: settings.scopes.optional(),
    headers: settings.headers.optional(),
    query: settings.query.optional(),
    body: settings.body.optional(),
    allow_foreign_credentials: settings.allow_foreign_credentials.optional(),
  },
  { error: issue => (issue.code === 'unrecognized_keys' ? 'the body has an unknown field' : undefined) },
)
export type SecretSpec = z.infer<typeof SecretSpec>

export const SecretRotation = z.strictObject(
  { value: Value },
  { error: issue => (issue.code === 'unrecognized_keys' ? 'the body must have value and no other field' : undefined) },
)

/** How a secret is used; without scopes it cannot be given to a session. */
export const SecretSettings = z.object({
  kind: settings.kind,
  env: settings.env.nullable(),
  scopes: settings.scopes,
  headers: settings.headers,
  query: settings.query,
  body: settings.body,
  allow_foreign_credentials: settings.allow_foreign_credentials,
})
export type SecretSettings = z.infer<typeof SecretSettings>

export const Secret = SecretSettings.extend({ name: SecretName, created_at: Timestamp, updated_at: Timestamp })

export const SecretQuery = z.strictObject({
  limit: queryInt(LIMITS.list_page.min, LIMITS.list_page.max).optional(),
  offset: queryInt(0, 1_000_000_000).optional(),
  cursor: z.string().max(256).optional(),
})
export type SecretQuery = z.infer<typeof SecretQuery>

export const SecretList = z.object({
  items: z.array(Secret),
  total: z.int(),
  limit: z.int(),
  offset: z.int(),
  next_cursor: z.string().nullable(),
})
