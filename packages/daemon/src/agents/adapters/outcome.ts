// Decides the outcome of a run of an agent, from how its process ended and what the agent itself reported. Tool output and the model's text
// are never searched: they may quote any error.
import { stripVTControlCharacters } from 'node:util'
import { AGENT_FACTS, type AgentName, type Outcome, type TaskReason } from '@sandglass/contract'
import type { Conclusion, ParsedRun, RunEnd, Spent } from './adapter.ts'
import { NO_USAGE } from './untrusted.ts'

/** What the parser has gathered by the end. */
export type Findings = Spent & {
  agentSessionId: string | null
  responseText: string | null
  durationMs: number | null
  /** The agent has reported that it is done. */
  hasResult: boolean
  /** Its report of a failure. */
  failure: Failure | null
}

export const NOTHING_FOUND: Findings = {
  agentSessionId: null,
  responseText: null,
  usage: NO_USAGE,
  totalCostUsd: null,
  numTurns: 0,
  durationMs: null,
  hasResult: false,
  failure: null,
}

export const spentOf = ({ usage, totalCostUsd, numTurns }: Findings): Spent => ({ usage, totalCostUsd, numTurns })

export type Failure = {
  text: string
  /** HTTP status of the model's API, where the agent reports it as such. */
  status: number | null
  /** Where the agent itself names the cause. */
  reason: TaskReason | null
}

type Run = Pick<ParsedRun, 'credentialEnv' | 'baseUrl'>

export function conclude(agent: AgentName, run: Run, end: RunEnd, findings: Findings): Conclusion {
  const { failure, hasResult, ...rest } = findings
  const { outcome, reason } = classify(end, findings)
  const detail = failure?.text ?? lastLines(end.stderr)
  const errorMessage = outcome === 'SUCCESS' ? null : redact(MESSAGES[reason]({ agent, run, end, detail }))
  return { ...rest, outcome, reason, errorMessage }
}

function classify(end: RunEnd, { failure, hasResult, responseText }: Findings): { outcome: Outcome; reason: TaskReason } {
  if (end.timedOut) return { outcome: 'TIMEOUT', reason: 'timeout' }
  if (end.limitHit === 'budget' || end.limitHit === 'max_turns') return failed(end.limitHit)
  if (end.wasStopped) return failed('stopped')
  if (end.exitCode === 0 && failure === null) {
    return hasResult || responseText !== null ? { outcome: 'SUCCESS', reason: 'completed' } : failed('no_result')
  }
  return fromReport(failure ?? { text: end.stderr, status: null, reason: null }) ?? fromExit(end, failure !== null)
}

/** Null if the report says nothing about the cause. */
function fromReport({ text, status, reason }: Failure): { outcome: Outcome; reason: TaskReason } | null {
  if (reason === 'prompt_too_long' || TOO_LONG.test(text)) return { outcome: 'PROMPT_TOO_LONG', reason: 'prompt_too_long' }
  if (reason !== null) return { outcome: CORRUPTED.has(reason) ? 'SESSION_CORRUPTED' : 'CONTAINER_FAILED', reason }
  if (BLOCKED.test(text)) return failed('model_unreachable')
  const found = reasonOfStatus(status ?? statusIn(text)) ?? TEXTS.find(([pattern]) => pattern.test(text))?.[1]
  // The account has no money left: a new conversation does not help.
  const cause = found === 'bad_request' && NO_CREDIT.test(text) ? 'auth' : found
  if (cause === undefined) return null
  return { outcome: CORRUPTED.has(cause) ? 'SESSION_CORRUPTED' : 'CONTAINER_FAILED', reason: cause }
}

function fromExit({ exitCode, limitHit, stderr }: RunEnd, hasReport: boolean): { outcome: Outcome; reason: TaskReason } {
  if (limitHit === 'memory') return failed('out_of_memory')
  if (limitHit === 'disk' || DISK_FULL.test(stderr)) return failed('disk_full')
  return failed(hasReport || exitCode === 0 ? 'no_result' : 'crashed')
}

const failed = (reason: TaskReason) => ({ outcome: 'CONTAINER_FAILED', reason }) as const

const CORRUPTED: ReadonlySet<TaskReason> = new Set(['bad_request', 'auth', 'rate_limited'])

function reasonOfStatus(status: number | null): TaskReason | undefined {
  if (status === null) return undefined
  if (status === 401 || status === 402 || status === 403) return 'auth'
  if (status === 429) return 'rate_limited'
  // The answers of the egress process, or of a gateway, for a server that it cannot reach.
  if (status === 502 || status === 504) return 'model_unreachable'
  if (status >= 500) return 'overloaded'
  return status >= 400 ? 'bad_request' : undefined
}

/** In the words of the agents: "API Error: 400 …", "Request rejected (429)", "unexpected status 401 Unauthorized", "last status: 503". */
function statusIn(text: string): number | null {
  const found = /(?:API Error:? |rejected \(|status:? )([45]\d\d)\b/i.exec(text)
  return found === null ? null : Number(found[1])
}

const TOO_LONG =
  /prompt is too long|context_length_exceeded|exceeds the context window|ran out of room in the model's context window|maximum context length|ContextOverflowError/i
/** The egress process has refused the request: the key is not to blame. */
const BLOCKED = /blocked_by_network_allowlist/
const NO_CREDIT = /credit balance is too low|insufficient_quota|exceeded your current quota/i
const DISK_FULL = /ENOSPC|no space left on device|database or disk is full/i

const TEXTS: readonly (readonly [RegExp, TaskReason])[] = [
  [DISK_FULL, 'disk_full'],
  [/no conversation found|no rollout found|session not found|thread not found|no (saved )?session found/i, 'bad_request'],
  [/--resume requires a valid session/i, 'bad_request'],
  [/not logged in|please run \/login|invalid api key|incorrect api key|missing environment variable|api key is missing/i, 'auth'],
  [NO_CREDIT, 'auth'],
  [/usage limit|rate limit/i, 'rate_limited'],
  [/overloaded|high demand|at capacity/i, 'overloaded'],
  [
    /ECONNREFUSED|ECONNRESET|ENOTFOUND|EAI_AGAIN|ETIMEDOUT|connection (refused|reset|error|failed)|unable to connect|error sending request|stream disconnected|fetch failed|empty or malformed response|certificate/i,
    'model_unreachable',
  ],
]

type Facts = { agent: AgentName; run: Run; end: RunEnd; detail: string }

const MESSAGES: Readonly<Record<TaskReason, (facts: Facts) => string>> = {
  completed: () => '',
  timeout: () =>
    'The task took longer than its time limit and was ended. Its work is kept in the session; give it a higher timeout_sec.',
  stopped: () => 'The task was stopped.',
  prompt_too_long: ({ agent, detail }) =>
    `The conversation does not fit into the model's context any more. Start a new one with a recovery prompt. ${said(agent, detail)}`,
  bad_request: ({ agent, detail }) =>
    `The model's API or the agent refused the conversation. Check the model's name, or start a new conversation with a recovery prompt. ${said(agent, detail)}`,
  auth: ({ agent, run, detail }) =>
    `The model's API refused the key. Set it again: sandglass secret set ${secretOf(agent, run)}. ${said(agent, detail)}`,
  rate_limited: ({ agent, detail }) => `The model's API refused more requests for now. Try again later. ${said(agent, detail)}`,
  overloaded: ({ agent, detail }) => `The model's API was not able to answer. Try again later. ${said(agent, detail)}`,
  model_unreachable: ({ agent, run, detail }) =>
    `The model's API${run.baseUrl === null ? '' : ` at ${run.baseUrl}`} could not be reached. Look for refused connections in the network log of the session. ${said(agent, detail)}`,
  budget: () =>
    'The task reached its budget, or that of its context, and was ended. Give it a higher max_cost_usd or context_max_cost_usd.',
  max_turns: () => 'The task reached its number of turns and was ended. Give it a higher max_turns.',
  out_of_memory: () => 'The session ran out of memory. Give it more memory_mb.',
  disk_full: () => 'The disk of the session is full. Give it more disk_mb.',
  crashed: ({ agent, end, detail }) =>
    `${AGENT_FACTS[agent].title} ended ${end.exitCode === null ? 'by a signal' : `with exit code ${end.exitCode}`}. ${said(agent, detail)}`,
  no_result: ({ agent, detail }) => `${AGENT_FACTS[agent].title} ended without an answer. ${said(agent, detail)}`,
  start_failed: ({ agent, detail }) => `${AGENT_FACTS[agent].title} could not be started. ${said(agent, detail)}`,
  machine_lost: () => 'The machine of the session was lost.',
}

const said = (agent: AgentName, detail: string): string =>
  detail.trim() === '' ? '' : `${AGENT_FACTS[agent].title} said: ${detail.trim().slice(0, MAX_DETAIL)}`

function secretOf(agent: AgentName, { credentialEnv }: Run): string {
  const { credentials } = AGENT_FACTS[agent]
  return (credentials.find(({ settings }) => settings.env === credentialEnv) ?? credentials[0])?.secret ?? agent
}

const MAX_DETAIL = 1000
const STDERR_LINES = 5

function lastLines(stderr: string): string {
  return stderr.trimEnd().split('\n').slice(-STDERR_LINES).join('\n').slice(-MAX_DETAIL)
}

/** SECURITY: APIs quote the key that they refuse. In a sandbox it is a surrogate, but the message goes to logs and screens. */
function redact(message: string): string {
  return stripVTControlCharacters(message)
    .replace(/\b(?:sk|key|token|sess|eyJ)[-_.A-Za-z0-9*]{12,}/g, '[key]')
    .replace(/\bBearer \S+/gi, 'Bearer [key]')
    .trim()
}
