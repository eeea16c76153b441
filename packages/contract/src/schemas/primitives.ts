// Shapes that several schemas share.
import { z } from 'zod'
import { issueText } from '../errors/issue-text.ts'
import { ENV_NAME, LABEL_NAME, SESSION_ID, SESSION_NAME, SESSION_NAME_RULE, SHELL_NAME } from '../tables/ids.ts'
import { LIMITS_HIT } from '../tables/limit-hit.ts'
import { LIMITS, type LimitName } from '../tables/limits.ts'
import { SIGNALS, signalName } from '../tables/signals.ts'

z.config({ customError: issueText })

const bytes = (text: string) => new TextEncoder().encode(text).length

export const SessionId = z.string().regex(SESSION_ID, 'must look like sess_ and 16 of a-z0-9')
export const SessionName = z.string().regex(SESSION_NAME, `must be ${SESSION_NAME_RULE}`)
/** A session is addressed by its id or by its name. */
export const SessionRef = z.string().refine(s => SESSION_ID.test(s) || SESSION_NAME.test(s), 'must be a session id or name')
export const ShellName = z.string().regex(SHELL_NAME, 'must be 1 to 32 of a-z, 0-9, _ and -, and may end in @root or @sandbox')
export const Timestamp = z.iso.datetime().describe('UTC time, ISO 8601 with milliseconds')

export const Path = z
  .string()
  .min(1)
  .refine(p => !p.includes('\0'), 'must not contain NUL')
  .refine(p => bytes(p) <= LIMITS.path_bytes.max, `must be at most ${LIMITS.path_bytes.max} bytes`)
  .describe('path in the sandbox; a relative one starts at /workspace')

export const Env = z
  .record(
    z.string().regex(ENV_NAME, 'must be of a-z, A-Z, 0-9 and _, not starting with a digit'),
    z.string().refine(v => !v.includes('\0'), 'must not contain NUL'),
  )
  .refine(e => Object.keys(e).length <= LIMITS.env_keys.max, `at most ${LIMITS.env_keys.max} variables`)
  .refine(
    e => Object.entries(e).reduce((n, [k, v]) => n + bytes(k) + bytes(v), 0) <= LIMITS.env_bytes.max,
    `at most ${LIMITS.env_bytes.max} bytes in all`,
  )
  .describe('environment variables')

/** The specifications' name of `env`, as a field of a request. */
export const EnvVars = Env.optional().describe('another name of env: give one of them')

/** Accepts `env_vars` in the place of `env`. The parsed request has `env` alone. */
export function withEnvAlias<Request extends z.ZodObject>(request: Request): Request {
  return request.check(context => {
    const { env_vars, ...rest } = context.value
    if (env_vars === undefined) return
    if (rest.env === undefined) context.value = { ...rest, env: env_vars } as typeof context.value
    else
      context.issues.push({
        code: 'custom',
        input: context.value,
        message: 'give env or env_vars, not both: they are the same field',
      })
  })
}

export const Labels = z
  .record(
    z.string().regex(LABEL_NAME, 'must be 1 to 63 of a-z, 0-9, ., _, / and -, starting with a letter or a digit'),
    z.string().max(256),
  )
  .refine(l => Object.keys(l).length <= LIMITS.labels.max, `at most ${LIMITS.labels.max} labels`)
  .describe('your own labels, for filtering lists')

type RangeName = { [N in LimitName]: (typeof LIMITS)[N] extends { min: number; max: number } ? N : never }[LimitName]

/** An integer or number in the range of a row of LIMITS. Where the operator can set the max, the daemon checks requests against that one. */
export function within(name: RangeName) {
  const row = LIMITS[name]
  const { min, about } = row
  const max = 'highest' in row ? row.highest : row.max
  const number = name === 'cpu_cores' ? z.number() : z.int()
  const must = 'highest' in row ? [`be at least ${min}`, `be at most ${max}`] : [`be ${min} to ${max}`, `be ${min} to ${max}`]
  const error = (end: 0 | 1) => ({ error: ({ input }: { input?: unknown }) => `must ${must[end]}, not ${String(input)}` })
  return number.min(min, error(0)).max(max, error(1)).describe(about)
}

/** Query strings carry text; these parse it. */
export const queryInt = (min: number, max: number) => z.coerce.number().int().min(min).max(max)
export const queryBool = z.enum(['true', 'false', '1', '0', '']).transform(v => v === 'true' || v === '1' || v === '')

/** A limit of the session that was reached; null if none is known. */
export const NullableLimitHit = z
  .object({ limit: z.enum(LIMITS_HIT), value: z.int().describe('the limit as the session had it') })
  .nullable()

export const Ok = z.object({ ok: z.literal(true) })
export const Size = z.strictObject({
  cols: z.int().min(LIMITS.terminal_size.min).max(LIMITS.terminal_size.max),
  rows: z.int().min(LIMITS.terminal_size.min).max(LIMITS.terminal_size.max),
})
export const User = z.enum(['sandbox', 'root']).describe('user in the sandbox; root there has no rights on the host')
export const Signal = z
  .union([z.string().max(16), z.int()])
  .transform((given, context) => {
    const name = signalName(given)
    if (name !== undefined) return name
    context.addIssue({ code: 'custom', message: `must be one of ${SIGNALS.join(', ')}` })
    return z.NEVER
  })
  .describe(`one of ${SIGNALS.join(', ')}; also with SIG in front, in lower case, or as a number`)
