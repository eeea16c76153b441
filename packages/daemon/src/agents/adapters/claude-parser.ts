// Reads the lines of `claude -p --output-format stream-json`.
import type { AgentParser, ParsedEvent, ParsedRun } from './adapter.ts'
import { conclude, type Failure, type Findings, NOTHING_FOUND, spentOf } from './outcome.ts'
import {
  addUsage,
  contentText,
  count,
  dollars,
  eventsOfLine,
  type Json,
  name,
  record,
  records,
  response,
  sessionId,
  string,
  toolInput,
  toolResult,
} from './untrusted.ts'

export function claudeParser(run: ParsedRun): AgentParser {
  const found: Findings = { ...NOTHING_FOUND }
  /** Each content block of a message has a line of its own, all with the id and the usage of the message. */
  let lastMessage: unknown
  let lastText: unknown

  const assistant = (line: Json): ParsedEvent[] => {
    const message = record(line.message)
    const from = parent(line)
    // An error of the API is shown as if the model had said it.
    if (message.model === '<synthetic>')
      return records(message.content).map(({ text }) => ({ type: 'error', ...from, text: string(text) ?? '' }))
    const events = records(message.content).map(block => contentEvent(block, from))
    if (from.parent_tool_use_id === undefined) {
      const texts = events.flatMap(({ type, text, is_thinking }) => (type === 'text' && !is_thinking && text ? [text] : []))
      if (texts.length > 0) {
        const earlier = message.id === lastText && found.responseText !== null ? [found.responseText] : []
        found.responseText = response([...earlier, ...texts])
        lastText = message.id
      }
    }
    if (message.id === lastMessage) return events
    lastMessage = message.id
    const usage = usageOf(message.usage)
    if (!found.hasResult) {
      found.usage = addUsage(found.usage, usage)
      if (from.parent_tool_use_id === undefined) found.numTurns += 1
    }
    return [
      ...events,
      { type: 'usage', ...from, usage, ...(name(message.model) !== undefined && { model: name(message.model) }) },
    ]
  }

  const result = (line: Json): ParsedEvent => {
    const isError = line.is_error === true
    const text = string(line.result) ?? strings(line.errors).join('\n')
    const turns = count(line.num_turns)
    const duration = count(line.duration_ms)
    found.agentSessionId = sessionId(line.session_id) ?? found.agentSessionId
    found.numTurns = count((found.hasResult ? found.numTurns : 0) + turns)
    found.durationMs = count((found.durationMs ?? 0) + duration)
    found.usage = usageOf(line.usage)
    found.totalCostUsd = costOf(line, found.totalCostUsd)
    found.hasResult = true
    found.failure = isError ? failureOf(line, text) : null
    if (!isError) found.responseText ??= text === '' ? null : response([text])
    return {
      type: 'result',
      text,
      is_error: isError,
      usage: found.usage,
      num_turns: turns,
      duration_ms: duration,
      ...(found.totalCostUsd !== null && { total_cost_usd: found.totalCostUsd }),
      ...(found.agentSessionId !== null && { agent_session_id: found.agentSessionId }),
    }
  }

  const init = (line: Json): ParsedEvent => {
    const id = sessionId(line.session_id)
    found.agentSessionId = id ?? found.agentSessionId
    return {
      type: 'init',
      ...(id !== null && { agent_session_id: id }),
      ...(name(line.model) !== undefined && { model: name(line.model) }),
    }
  }

  const events = (line: Json): ParsedEvent[] => {
    if (line.type === 'system' && line.subtype === 'init') return [init(line)]
    if (line.type === 'system' && line.subtype === 'api_retry') return [{ type: 'error', text: retryText(line) }]
    if (line.type === 'assistant') return assistant(line)
    if (line.type === 'user') return records(record(line.message).content).map(block => contentEvent(block, parent(line)))
    if (line.type === 'result') return [result(line)]
    return []
  }

  return {
    line: (text, truncated) => eventsOfLine(text, truncated, events),
    soFar: () => spentOf(found),
    conclude: end => conclude('claude', run, end, found),
  }
}

const parent = (line: Json): { parent_tool_use_id?: string } => {
  const id = name(line.parent_tool_use_id)
  return id === undefined ? {} : { parent_tool_use_id: id }
}

/** A block of a message of the model, or of the message with the results of its tools. */
function contentEvent(block: Json, from: object): ParsedEvent {
  const type = string(block.type) ?? ''
  const id = name(block.tool_use_id)
  if (type === 'thinking') return { type: 'text', ...from, text: string(block.thinking) ?? '', is_thinking: true }
  if (type === 'text') return { type: 'text', ...from, text: string(block.text) ?? '' }
  if (type === 'tool_use' || type === 'server_tool_use') {
    const tool = name(block.name)
    const use = name(block.id)
    return { type: 'tool_use', ...from, ...(use && { tool_use_id: use }), ...(tool && { name: tool }), ...toolInput(block.input) }
  }
  if (type.endsWith('tool_result'))
    return {
      type: 'tool_result',
      ...from,
      ...(id && { tool_use_id: id }),
      ...toolResult(contentText(block.content)),
      is_error: block.is_error === true,
    }
  return { type: 'other', ...from }
}

function usageOf(value: unknown) {
  const usage = record(value)
  return {
    input_tokens: count(usage.input_tokens),
    output_tokens: count(usage.output_tokens),
    cache_creation_input_tokens: count(usage.cache_creation_input_tokens),
    cache_read_input_tokens: count(usage.cache_read_input_tokens),
  }
}

function failureOf(line: Json, text: string): Failure {
  const status = count(line.api_error_status)
  return { text, status: status >= 400 ? status : null, reason: reasonIn(line) }
}

/** The cause of a failure, where Claude Code names it. */
function reasonIn({ terminal_reason, subtype, api_error }: Json): Failure['reason'] {
  if (terminal_reason === 'prompt_too_long') return 'prompt_too_long'
  if (subtype === 'error_max_turns') return 'max_turns'
  if (subtype === 'error_max_budget_usd') return 'budget'
  return api_error === 'connection_failed' ? 'model_unreachable' : null
}

/** `total_cost_usd` counts the whole conversation, with the runs before it was resumed; the usage since the last result does not. */
function costOf(line: Json, before: number | null): number | null {
  const since = Object.values(record(line.model_usage_since_last_result)).map(model => dollars(record(model).costUSD))
  const known = since.filter(cost => cost !== null)
  if (known.length > 0) return known.reduce((sum, cost) => sum + cost, before ?? 0)
  return dollars(line.total_cost_usd) ?? before
}

const strings = (value: unknown): string[] => (Array.isArray(value) ? value.flatMap(item => string(item) ?? []) : [])

function retryText({ attempt, max_retries, error, error_status }: Json): string {
  const status = count(error_status) > 0 ? ` (${count(error_status)})` : ''
  return `request to the model failed: ${name(error) ?? 'unknown'}${status}; retry ${count(attempt)} of ${count(max_retries)}`
}
