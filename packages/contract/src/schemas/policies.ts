// Policies: what a session may reach. An empty or missing list allows nothing.
import { z } from 'zod'
import { LIMITS } from '../tables/limits.ts'
import { POLICY_MODES, POLICY_NAME, POLICY_NAME_RULE } from '../tables/network.ts'
import { HostPattern, HostRule, hasWildcard, TcpRule } from './host-rules.ts'
import { queryInt, Timestamp } from './primitives.ts'

export { splitPort } from './host-rules.ts'

export const PolicyName = z.string().regex(POLICY_NAME, `must be ${POLICY_NAME_RULE}`)
export const PolicyMode = z
  .enum(POLICY_MODES)
  .describe(
    'requests outside the policy: enforce refuses them, observe allows and records them, ask holds them until a person answers',
  )

const METHOD = /^[A-Za-z][A-Za-z-]{0,31}$/

const GraphqlRule = z
  .strictObject({
    queries: z.boolean().default(false),
    mutations: z.boolean().default(false),
    subscriptions: z.boolean().default(false),
  })
  .describe('kinds of GraphQL operations that are allowed; requests with any other operation, or with none, are refused')

export const UrlRule = z.strictObject({
  host: HostPattern.describe('host name; * and ? are wildcards'),
  path: z
    .string()
    .max(2048)
    .refine(text => text === '' || text.startsWith('/') || text.startsWith('*'), 'must start with / or *')
    .refine(text => !/%[0-9a-f]{2}/i.test(text), 'must not be percent-encoded: it is compared with the decoded path')
    .refine(
      text => !/[\p{Cc}\\]|(^|\/)\.{1,2}(\/|$)/u.test(text),
      'must have no control character, no backslash, and no segment . or ..: requests with these are always refused',
    )
    .default('')
    .describe('path without query, decoded; * and ? are wildcards, without one it must match exactly; empty: every path'),
  methods: z
    .array(
      z
        .string()
        .regex(METHOD, 'must be a method such as GET')
        .overwrite(text => text.toUpperCase()),
    )
    .max(32)
    .default([])
    .describe('allowed methods; empty: all'),
  graphql: GraphqlRule.optional(),
})
export type PolicyMode = z.infer<typeof PolicyMode>
export type UrlRule = z.infer<typeof UrlRule>

const rules = LIMITS.policy_rules.max
export const MAX_TCP_RULES = 64

export const Policy = z.strictObject({
  description: z.string().max(200).optional().describe('for people'),
  mode: PolicyMode.optional(),
  include: z.array(PolicyName).max(32).default([]).describe('other policies whose rules belong to this one'),
  domains: z
    .array(HostRule)
    .max(rules)
    .default([])
    .describe(
      'hosts that may be reached with every method and path, on port 80, 443 and those of `ports`, or on the given port alone',
    ),
  url_prefixes: z.array(UrlRule).max(rules).default([]).describe('hosts with the paths and methods that are allowed'),
  tcp: z
    .array(TcpRule)
    .max(MAX_TCP_RULES)
    .default([])
    .describe('host:port that may be reached with any protocol; nothing of it is inspected'),
  ports: z
    .array(z.int().min(1).max(65_535))
    .max(64)
    .default([])
    .describe('ports for HTTP and TLS in addition to 80 and 443: of the hosts in this policy, with network nat of all hosts'),
  private: z
    .array(HostPattern.refine(text => !hasWildcard(text), 'must be one host name or IP address, without wildcards'))
    .max(64)
    .default([])
    .describe(
      'host names that may resolve to a private or loopback address, and IP addresses that may be used; link-local and cloud metadata addresses have to be listed as addresses. They need a rule, too',
    ),
  pass_through: z
    .array(HostPattern)
    .max(rules)
    .default([])
    .describe(
      'hosts whose TLS is not opened: only the host name is checked, and no secret is inserted; they need a rule for all paths and methods, too',
    ),
})
export type Policy = z.infer<typeof Policy>

export const StoredPolicy = z.object({
  name: PolicyName,
  policy: z.object(Policy.shape),
  built_in: z.boolean().describe('true for a ready-made policy, which cannot be changed'),
  created_at: Timestamp.nullable(),
  updated_at: Timestamp.nullable(),
})
export type StoredPolicy = z.infer<typeof StoredPolicy>

export const PolicyQuery = z.strictObject({
  limit: queryInt(LIMITS.list_page.min, LIMITS.list_page.max).optional(),
  offset: queryInt(0, 1_000_000_000).optional(),
  cursor: z.string().max(256).optional(),
})
export type PolicyQuery = z.infer<typeof PolicyQuery>

export const PolicyList = z.object({
  items: z.array(StoredPolicy),
  total: z.int(),
  limit: z.int(),
  offset: z.int(),
  next_cursor: z.string().nullable(),
})

export const PolicyCheckRequest = z.strictObject({
  url: z.string().min(1).max(8192).describe('URL: http, https, ws, wss, or tcp://host:port'),
  method: z
    .string()
    .regex(METHOD, 'must be a method such as GET')
    .overwrite(text => text.toUpperCase())
    .default('GET'),
})

export const PolicyCheck = z.object({
  allowed: z.boolean(),
  rule: z.string().nullable().describe('rule that allows it; null for none'),
  reason: z.string().describe('why it is allowed or refused, for people'),
})
