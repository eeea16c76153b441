// Contexts: conversations with an agent. A context owns a session, which is stopped between tasks, and the state of its agents.
import { z } from 'zod'
import { AGENTS } from '../tables/agents.ts'
import { LIMITS } from '../tables/limits.ts'
import { queryInt, SessionId, Timestamp } from './primitives.ts'

export const ContextId = z
  .string()
  .min(LIMITS.context_id.min)
  .max(LIMITS.context_id.max)
  .refine(id => id.isWellFormed() && !/\p{Cc}/u.test(id), 'must not contain control characters')
  // A URL drops such a segment, also when it is escaped.
  .refine(id => id !== '.' && id !== '..', 'must not be . or ..')
  .describe("the caller's own key of a conversation, a job or a run")

export const Usage = z
  .object({
    input_tokens: z.int().default(0),
    output_tokens: z.int().default(0),
    cache_creation_input_tokens: z.int().default(0),
    cache_read_input_tokens: z.int().default(0),
  })
  .describe('tokens')
export type Usage = z.infer<typeof Usage>

export const Context = z.object({
  id: z.string(),
  folder: z.string().describe('name of its folder below contexts/ in the data folder'),
  session_id: SessionId.nullable().describe('its session; null before the first task and after the session was removed'),
  model: z.string().nullable().describe('model of its tasks unless they name another; the last one that a task named'),
  agents: z.array(z.enum(AGENTS)).describe('agents that have worked in it'),
  replies: z.int(),
  total_cost_usd: z.number(),
  max_cost_usd: z.number().nullable(),
  running_task: z.string().nullable(),
  created_at: Timestamp,
  updated_at: Timestamp,
})
export type Context = z.infer<typeof Context>

export const ContextQuery = z.strictObject({
  limit: queryInt(LIMITS.list_page.min, LIMITS.list_page.max).optional(),
  offset: queryInt(0, 1_000_000_000).optional(),
  cursor: z.string().max(512).optional(),
})
export type ContextQuery = z.infer<typeof ContextQuery>

export const ContextList = z.object({
  items: z.array(Context),
  total: z.int(),
  limit: z.int(),
  offset: z.int(),
  next_cursor: z.string().nullable(),
})

/** One reply in context.json. */
export const ContextReply = z.object({
  task_id: z.string(),
  agent: z.enum(AGENTS),
  session_id: z.string().nullable().describe("the agent's own session id, by which a later task resumes it"),
  timestamp: Timestamp,
  duration_ms: z.int(),
  total_cost_usd: z.number(),
  num_turns: z.int(),
  is_error: z.boolean(),
  outcome: z.string().nullable(),
  usage: z.looseObject(Usage.shape),
  request_text: z.string(),
  response_text: z.string(),
  events: z.array(z.unknown()).describe('lines of the agent, parsed'),
  events_truncated: z.boolean().describe('true: only the first events are here; the task has all'),
})
export type ContextReply = z.infer<typeof ContextReply>

/** context.json */
export const ContextFile = z.object({
  execution_context_id: z.string(),
  model: z.string().nullable(),
  replies: z.array(ContextReply),
})
export type ContextFile = z.infer<typeof ContextFile>
