// The protocol of the control socket, between the daemon and the egress process: one JSON object per line.
//
// The daemon connects, sends `hello`, and then requests, each with an id; the reply has the same id and either `error` or the fields of the table
// below. Between replies the egress process sends events, which have no id. Several connections may be open; all of them get the events. When
// the daemon goes away, sessions and requests under way go on; the next daemon sends everything again.
//
// A connection whose first line is a `relay` carries no messages: after that line it is the byte stream to the egress endpoint of one runner.
import { z } from 'zod'
import { EgressSession } from '../session.ts'

export const CONTROL_VERSION = 1
/** Longest line that either side reads. */
export const MAX_LINE_BYTES = 16 * 1024 * 1024

const Id = z.int().min(1)

export const Authority = z.strictObject({
  fingerprint: z.string(),
  /** PEM. */
  certificate: z.string(),
  key: z.string(),
})
export type Authority = z.infer<typeof Authority>

/** What holds for all sessions. */
export const EgressSettings = z.strictObject({
  /** The newest first. */
  authorities: z.array(Authority).min(1),
  /** PEM certificates that upstream servers may be signed by, in addition to the public ones. */
  extraRoots: z.array(z.string()),
  /** host or host:port → address:port */
  overrides: z.record(z.string(), z.string()),
  upstreamProxy: z.string().nullable(),
  approvalSeconds: z.int(),
  logBytes: z.int(),
})
export type EgressSettings = z.infer<typeof EgressSettings>

/** A request that waits for a person, or has been answered. Times are milliseconds since the epoch. */
export const HeldRequest = z.strictObject({
  id: z.string(),
  sessionId: z.string(),
  sessionName: z.string(),
  status: z.enum(['pending', 'allowed', 'denied', 'expired']),
  /** Null for a TCP connection. */
  method: z.string().nullable(),
  /** Without query. */
  url: z.string(),
  host: z.string(),
  port: z.int(),
  scope: z.enum(['once', 'session', 'policy']).nullable(),
  /** Requests that wait for the answer. */
  requests: z.int(),
  requestedAt: z.int(),
  expiresAt: z.int(),
  answeredAt: z.int().nullable(),
})
export type HeldRequest = z.infer<typeof HeldRequest>

export const HostMetrics = z.strictObject({
  host: z.string(),
  allowed: z.int(),
  blocked: z.int(),
  failed: z.int(),
  bytesSent: z.int(),
  bytesReceived: z.int(),
})

export const ControlRequest = z.discriminatedUnion('type', [
  z.strictObject({ id: Id, type: z.literal('hello'), version: z.int() }),
  z.strictObject({ id: Id, type: z.literal('configure'), settings: EgressSettings }),
  /** Adds a session or replaces its settings. Answered when the runner's endpoint is connected; fails after 5 seconds without it. */
  z.strictObject({ id: Id, type: z.literal('put_session'), session: EgressSession }),
  z.strictObject({ id: Id, type: z.literal('remove_session'), session: z.string() }),
  z.strictObject({ id: Id, type: z.literal('list_sessions') }),
  z.strictObject({
    id: Id,
    type: z.literal('answer_approval'),
    approval: z.string(),
    allowed: z.boolean(),
    /** How far the egress process remembers the answer; a rule for the policy comes with put_session. */
    scope: z.enum(['once', 'session', 'policy']),
  }),
  z.strictObject({ id: Id, type: z.literal('metrics') }),
  /** Ends the process: connections under way are cut. */
  z.strictObject({ id: Id, type: z.literal('shutdown') }),
])
export type ControlRequest = z.infer<typeof ControlRequest>

export const Relay = z.strictObject({ type: z.literal('relay'), session: z.string() })

/** The fields of each reply, besides its id. */
export const CONTROL_REPLIES = {
  hello: z.object({ version: z.int(), pid: z.int(), held: z.array(HeldRequest) }),
  configure: z.object({}),
  put_session: z.object({}),
  remove_session: z.object({}),
  list_sessions: z.object({
    sessions: z.array(z.object({ id: z.string(), connected: z.boolean(), connections: z.int() })),
  }),
  answer_approval: z.object({ held: HeldRequest.nullable() }),
  metrics: z.object({ hosts: z.array(HostMetrics), connections: z.int() }),
  shutdown: z.object({}),
} as const
export type ControlReplies = { [T in keyof typeof CONTROL_REPLIES]: z.infer<(typeof CONTROL_REPLIES)[T]> }

export const ControlFailure = z.object({ id: Id, error: z.string() })
export const ControlEvent = z.object({ type: z.literal('held'), held: HeldRequest })
export type ControlEvent = z.infer<typeof ControlEvent>
