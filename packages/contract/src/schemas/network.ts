// The network of a session: its log, approvals of requests, and the certificate authority.
import { z } from 'zod'
import { LIMITS } from '../tables/limits.ts'
import { APPROVAL_ID, APPROVAL_SCOPES, APPROVAL_STATES } from '../tables/network.ts'
import { PolicyMode, PolicyName } from './policies.ts'
import { queryBool, queryInt, SessionId, SessionRef, Timestamp } from './primitives.ts'

/** One line of network-sandbox.jsonl. */
export const NetworkEntry = z.object({
  id: z.int().describe('rises by one with every entry of the session'),
  at: Timestamp,
  type: z
    .enum(['start', 'dns', 'request', 'connection', 'stripped', 'error'])
    .describe(
      'start: the session began; dns: a name was asked for; request: an HTTP request; connection: a TCP or pass-through connection; stripped: a credential was removed from a request; error: a failure that is no decision',
    ),
  decision: z.enum(['allowed', 'blocked', 'error']).nullable(),
  method: z.string().nullable(),
  url: z.string().nullable().describe('without user information; values of masked secrets are replaced'),
  host: z.string().nullable(),
  port: z.int().nullable(),
  status: z.int().nullable().describe('status of the reply'),
  rule: z.string().nullable().describe('rule of the policy that decided'),
  reason: z.string().nullable(),
  bytes_sent: z.int().nullable(),
  bytes_received: z.int().nullable(),
  duration_ms: z.number().nullable(),
  masked: z.int().describe('secrets that were inserted'),
  tags: z.array(z.string()),
})
export type NetworkEntry = z.infer<typeof NetworkEntry>

export const NetworkQuery = z.strictObject({
  follow: queryBool.optional().describe('keep the stream open for new entries'),
  blocked: queryBool.optional().describe('only entries that were refused or failed'),
  tail: queryInt(0, 1_000_000).optional().describe('only the last entries'),
})
export type NetworkQuery = z.infer<typeof NetworkQuery>

export const SessionPolicies = z.strictObject({
  policies: z.array(PolicyName).max(LIMITS.policies_per_session.max).optional().describe('policies of the session'),
  policy_mode: PolicyMode.nullable().optional().describe('mode of the session; null: that of its policies'),
})
export type SessionPolicies = z.infer<typeof SessionPolicies>

const ApprovalId = z.string().regex(APPROVAL_ID, 'must look like appr_ and 16 of a-z0-9')

export const Approval = z.object({
  id: ApprovalId,
  session_id: SessionId,
  session_name: z.string(),
  status: z.enum(APPROVAL_STATES),
  method: z.string().nullable().describe('null for a TCP connection'),
  url: z.string().describe('without query'),
  host: z.string(),
  port: z.int(),
  scope: z.enum(APPROVAL_SCOPES).nullable().describe('how far the answer reaches; null while there is none'),
  requests: z.int().describe('requests that wait for the answer'),
  requested_at: Timestamp,
  expires_at: Timestamp.describe('when the request is refused if nobody has answered'),
  answered_at: Timestamp.nullable(),
})
export type Approval = z.infer<typeof Approval>

export const ApprovalQuery = z.strictObject({
  status: z.enum(APPROVAL_STATES).optional(),
  session: SessionRef.optional(),
  limit: queryInt(LIMITS.list_page.min, LIMITS.list_page.max).optional(),
  offset: queryInt(0, 1_000_000_000).optional(),
  cursor: z.string().max(256).optional(),
})
export type ApprovalQuery = z.infer<typeof ApprovalQuery>

export const ApprovalList = z.object({
  items: z.array(Approval),
  total: z.int(),
  limit: z.int(),
  offset: z.int(),
  next_cursor: z.string().nullable(),
})

export const ApprovalAnswer = z.strictObject({
  scope: z
    .enum(APPROVAL_SCOPES)
    .default('once')
    .describe('once: this request; session: this host in this session; policy: also in the policy'),
  policy: PolicyName.optional().describe(
    'policy that gets the rule; when absent, the only one of the session that can be changed',
  ),
})
export type ApprovalAnswer = z.infer<typeof ApprovalAnswer>

export const approvalId = z.strictObject({ id: ApprovalId })

export const CertificateAuthority = z.object({
  certificate: z.string().describe('PEM'),
  fingerprint: z.string().describe('SHA-256 of the certificate, in hex'),
  created_at: Timestamp,
  expires_at: Timestamp,
})
export type CertificateAuthority = z.infer<typeof CertificateAuthority>
