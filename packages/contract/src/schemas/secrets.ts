// Secrets: encrypted values by name. No reply contains a value.
import { z } from 'zod'
import { SECRET_NAME } from '../tables/ids.ts'
import { LIMITS } from '../tables/limits.ts'
import { queryInt, Timestamp } from './primitives.ts'

export const SecretName = z
  .string()
  .regex(SECRET_NAME, `must be 1 to ${LIMITS.secret_name.max} of a-z, A-Z, 0-9, ., _ and -, starting with a letter`)

/** SECURITY: no error quotes the value, nor the name of an unknown field, which may be the value in the wrong place. */
export const SecretSpec = z.strictObject(
  {
    value: z
      .string()
      .min(1)
      .refine(text => text.isWellFormed() && !text.includes('\0'), 'must be text without NUL')
      .refine(
        text => new TextEncoder().encode(text).length <= LIMITS.secret_value_bytes.max,
        `must be at most ${LIMITS.secret_value_bytes.max} bytes`,
      )
      .describe('the secret; it is never shown again'),
  },
  { error: issue => (issue.code === 'unrecognized_keys' ? 'the body must have value and no other field' : undefined) },
)

export const Secret = z.object({ name: SecretName, created_at: Timestamp, updated_at: Timestamp })

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
