// Tasks: one run of a coding agent. A prompt goes in, events come out, and it ends with one outcome.
import { z } from 'zod'
import { AGENTS, EVENT_TYPES, ON_BUSY, OUTCOMES, TASK_ID, TASK_REASONS, UPLOAD_ID } from '../tables/agents.ts'
import { TASK_STATES } from '../tables/lifecycles.ts'
import { LIMITS } from '../tables/limits.ts'
import { ContextId, Usage } from './contexts.ts'
import { PolicyName } from './policies.ts'
import { Env, Labels, Path, queryBool, queryInt, SessionId, SessionRef, Timestamp, within } from './primitives.ts'
import { SecretName } from './secrets.ts'
import { BackendName, HostMount } from './session.ts'

export const TaskId = z.string().regex(TASK_ID, 'must look like task_ and 16 of a-z0-9')
const UploadId = z.string().regex(UPLOAD_ID, 'must look like upl_ and 16 of a-z0-9')

/** Characters as people count them, not UTF-16 units. */
const characters = (text: string) => [...text].length

export const Prompt = z
  .string()
  .min(1, 'must not be empty')
  .refine(
    text => characters(text) <= LIMITS.prompt_characters.max,
    `must be at most ${LIMITS.prompt_characters.max} characters; put longer text into a file of the task and name the file`,
  )
  .refine(text => text.isWellFormed() && !text.includes('\0'), 'must be text without NUL')
  .describe('what the agent is asked to do')

const Budget = z.number().min(LIMITS.task_budget_usd.min).max(LIMITS.task_budget_usd.max)

/** A wildcard would become a policy for every host. */
const ServerUrl = z
  .url({ protocol: /^https?$/, error: 'must be an http or https address' })
  .max(2048)
  .refine(url => !/[*?]/.test(URL.parse(url)?.hostname ?? ''), 'must name one host, without wildcards')

export const McpServer = z
  .strictObject({
    url: ServerUrl.optional().describe('address of a server over HTTP; its host joins the policy'),
    command: z.array(z.string().min(1).max(4096)).min(1).max(64).optional().describe('program in the sandbox and its arguments'),
    env: Env.optional(),
    secret: SecretName.optional().describe(
      'secret whose surrogate is sent as bearer token to url; command has it in the variable of the secret',
    ),
  })
  .refine(server => (server.url === undefined) !== (server.command === undefined), 'give url or command')
export type McpServer = z.infer<typeof McpServer>

const TaskFile = z
  .strictObject({
    path: Path,
    text: z.string().max(1_000_000).optional(),
    upload: UploadId.optional(),
    mode: z
      .string()
      .regex(/^[0-7]{3,4}$/, 'must be an octal mode such as 644')
      .optional(),
  })
  .refine(file => (file.text === undefined) !== (file.upload === undefined), 'give text or upload')

export const TaskRepository = z.strictObject({
  upload: UploadId.describe('a git bundle; its HEAD is checked out in /workspace'),
  branch: z
    .string()
    .min(1)
    .max(200)
    .regex(/^[A-Za-z0-9][A-Za-z0-9._/-]*$/, 'must be a branch name')
    .optional()
    .describe('branch for the commits of the agent; sandglass/<task id> when absent'),
})

export const TaskSpec = z.strictObject({
  prompt: Prompt,
  agent: z.enum(AGENTS).optional().describe('coding agent; default_agent when absent'),
  context: ContextId.optional().describe('conversation that the task continues; a new one when absent'),
  session: SessionRef.optional().describe('running session to work in, in place of one that the context owns'),
  model: z
    .string()
    .min(1)
    .max(200)
    .regex(/^[^\s-]\S*$/, 'must be the name of a model')
    .optional()
    .describe('model; that of the context when absent, else the default of the agent'),
  resume: z.boolean().optional().describe('false starts a new conversation of the agent in the context'),
  agent_session_id: z
    .string()
    .min(1)
    .max(200)
    .regex(/^[A-Za-z0-9][A-Za-z0-9_-]*$/, 'must be a session id of the agent')
    .optional()
    .describe('conversation of the agent to resume; when absent, the last one of the context'),
  recovery_prompt: Prompt.optional().describe(
    'prompt of one more try in a new conversation, if this one has become too long or damaged',
  ),
  image: z.string().min(1).max(512).optional(),
  backend: BackendName.optional(),
  cpu_cores: within('cpu_cores').optional(),
  memory_mb: within('memory_mb').optional(),
  disk_mb: within('disk_mb').optional(),
  mounts: z.array(HostMount).max(16).optional(),
  files: z.array(TaskFile).max(LIMITS.task_files.max).optional().describe('files to put into the session first'),
  repository: TaskRepository.optional().describe('git repository to work on; the changes are returned as a patch and a bundle'),
  env: Env.optional(),
  policies: z
    .array(PolicyName)
    .max(LIMITS.policies_per_session.max - 1)
    .optional()
    .describe("policies besides the agent's own"),
  secrets: z
    .array(SecretName)
    .max(LIMITS.secrets_per_session.max - 1)
    .optional()
    .describe("secrets besides the agent's key"),
  base_url: ServerUrl.optional().describe(
    "address of a gateway in place of the model's own API; its host joins the policy, and the agent's secret needs it as a scope",
  ),
  mcp: z
    .record(z.string().regex(/^[A-Za-z0-9_-]{1,64}$/, 'must be a name of a-z, A-Z, 0-9, _ and -'), McpServer)
    .refine(servers => Object.keys(servers).length <= LIMITS.mcp_servers.max, `at most ${LIMITS.mcp_servers.max} servers`)
    .optional()
    .describe('MCP servers that the agent may use'),
  trust_repo_config: z
    .boolean()
    .optional()
    .describe("true: the agent's configuration files in the repository take effect; otherwise they are ignored"),
  allow_web_tools: z
    .boolean()
    .optional()
    .describe('true: web search and fetch tools of the model provider, which go around the policy'),
  timeout_sec: within('task_timeout_seconds').optional(),
  max_turns: within('task_turns').optional(),
  max_cost_usd: Budget.optional().describe('the task ends when it has cost this much'),
  context_max_cost_usd: Budget.optional().describe('no further task of the context starts when all have cost this much'),
  attempts: within('task_attempts').optional().describe('how often the prompt is run, each in a session of its own'),
  agents: z.array(z.enum(AGENTS)).min(1).max(AGENTS.length).optional().describe('run the prompt with each of these agents'),
  retries: within('task_retries').optional(),
  retry_on: z
    .array(z.enum([...OUTCOMES, ...TASK_REASONS]))
    .max(16)
    .optional()
    .describe('outcomes and reasons that are retried; when absent rate_limited, overloaded and model_unreachable'),
  check: z.string().min(1).max(10_000).optional().describe('command line run in the session afterwards; its exit code is shown'),
  on_busy: z.enum(ON_BUSY).optional().describe('when the context has a running task: wait (the default) or refuse'),
  keep_session: z.boolean().optional().describe('true: the session keeps running after the task'),
  labels: Labels.optional(),
})
export type TaskSpec = z.infer<typeof TaskSpec>

export const Task = z.object({
  id: TaskId,
  group_id: TaskId.describe('the first task of the same request: attempts and agents side by side'),
  attempt: z.int().describe('1 for the first of its group'),
  agent: z.enum(AGENTS),
  agent_version: z.string().nullable(),
  context: z.string(),
  session_id: SessionId.nullable(),
  session_name: z.string().nullable(),
  status: z.enum(TASK_STATES),
  outcome: z.enum(OUTCOMES).nullable(),
  reason: z.enum(TASK_REASONS).nullable().describe('why the task has its outcome'),
  error_message: z.string().nullable().describe('for people; null for a success'),
  is_recoverable: z.boolean().describe('true: one more try with a recovery prompt, in a new conversation, can work'),
  prompt: z.string(),
  model: z.string().nullable(),
  agent_session_id: z.string().nullable().describe("the agent's own id of the conversation"),
  resumed_from: z.string().nullable().describe('conversation of the agent that the task has resumed'),
  response_text: z.string().nullable(),
  usage: Usage,
  total_cost_usd: z.number().nullable().describe('null if neither the agent nor the price table knows'),
  num_turns: z.int(),
  exit_code: z.int().nullable(),
  check_exit_code: z.int().nullable(),
  tries: z.int().describe('runs of the agent so far, with retries and the recovery'),
  events: z.int().describe('number of events so far'),
  timeout_sec: z.int(),
  max_turns: z.int().nullable(),
  max_cost_usd: z.number().nullable(),
  has_patch: z.boolean(),
  branch: z.string().nullable(),
  labels: z.record(z.string(), z.string()),
  created_at: Timestamp,
  started_at: Timestamp.nullable(),
  deadline_at: Timestamp.nullable().describe('when the agent is ended'),
  ended_at: Timestamp.nullable(),
  duration_ms: z.int().nullable(),
})
export type Task = z.infer<typeof Task>

export const TaskCreated = z.object({ items: z.array(Task) }).describe('one task, or one for each attempt and agent')

export const TaskQuery = z.strictObject({
  status: z.enum(TASK_STATES).optional(),
  context: ContextId.optional(),
  group: TaskId.optional(),
  limit: queryInt(LIMITS.list_page.min, LIMITS.list_page.max).optional(),
  offset: queryInt(0, 1_000_000_000).optional(),
  cursor: z.string().max(256).optional(),
})
export type TaskQuery = z.infer<typeof TaskQuery>

export const TaskList = z.object({
  items: z.array(Task),
  total: z.int(),
  limit: z.int(),
  offset: z.int(),
  next_cursor: z.string().nullable(),
})

export const TaskEventsQuery = z.strictObject({
  raw: queryBool.optional().describe("also the agent's own lines"),
  tail: queryInt(0, 1_000_000).optional().describe('only the last events'),
  follow: queryBool.optional().describe('false ends the stream after the events so far; when absent it ends with the task'),
})
export type TaskEventsQuery = z.infer<typeof TaskEventsQuery>

/** One event. Which fields are there depends on the type; all others are absent. */
export const TaskEvent = z.object({
  id: z.int().describe('rises by one with every event of the task'),
  at: Timestamp,
  type: z
    .enum(EVENT_TYPES)
    .describe(
      'status: Sandglass changed the state of the task; init: the agent has begun; text: it said something; tool_use and tool_result: it used a tool; usage: tokens of a turn; result: it is done; error: it reported a failure; other: any other line',
    ),
  agent_session_id: z.string().optional(),
  model: z.string().optional(),
  text: z.string().optional().describe('of text, result, error and status'),
  is_thinking: z.boolean().optional(),
  tool_use_id: z.string().optional(),
  parent_tool_use_id: z.string().optional().describe('the tool use of the agent that started a sub-agent'),
  name: z.string().optional().describe('name of the tool'),
  input: z.unknown().optional().describe('input of the tool'),
  content: z.string().optional().describe('what the tool gave back'),
  is_error: z.boolean().optional(),
  usage: Usage.optional(),
  total_cost_usd: z.number().optional(),
  num_turns: z.int().optional(),
  duration_ms: z.number().optional(),
  status: z
    .string()
    .optional()
    .describe('of status: preparing, installing, running, retrying, recovering, checking, checked, warning, done'),
  truncated: z.boolean().optional().describe('true: the line was too long, and its end is missing'),
  raw: z.string().optional().describe("the agent's own line, on the first event of the line"),
})
export type TaskEvent = z.infer<typeof TaskEvent>

export const TaskResult = z.object({
  task_id: TaskId,
  outcome: z.enum(OUTCOMES),
  reason: z.enum(TASK_REASONS),
  error_message: z.string().nullable(),
  session_id: z.string().nullable().describe("the agent's own session id"),
  response_text: z.string(),
  duration_ms: z.int(),
  total_cost_usd: z.number().nullable(),
  num_turns: z.int(),
  is_error: z.boolean(),
  usage: Usage,
  exit_code: z.int().nullable(),
  check_exit_code: z.int().nullable(),
})
export type TaskResult = z.infer<typeof TaskResult>

export const Upload = z.object({ id: UploadId, bytes: z.int(), sha256: z.string(), expires_at: Timestamp })
export const taskId = z.strictObject({ id: TaskId })
