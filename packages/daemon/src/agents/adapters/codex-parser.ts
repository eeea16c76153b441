// Reads the lines of `codex exec --json`.
import type { Usage } from '@sandglass/contract'
import type { AgentParser, ParsedEvent, ParsedRun } from './adapter.ts'
import { conclude, type Failure, type Findings, NOTHING_FOUND, spentOf } from './outcome.ts'
import { costOf, priceOf } from './prices.ts'
import {
  contentText,
  count,
  eventsOfLine,
  type Json,
  NO_USAGE,
  name,
  parseRecord,
  record,
  response,
  sessionId,
  string,
  toolInput,
  toolResult,
} from './untrusted.ts'

/** Tools that an agent uses at once, with room: the ids of those that never end are not kept for ever. */
const MAX_BEGUN = 1000

export function codexParser(run: ParsedRun): AgentParser {
  const found: Findings = { ...NOTHING_FOUND }
  const price = run.model === null ? null : priceOf(run.model)
  /** Tools whose use has been reported; a short one has no line for its start. */
  const begun = new Set<string>()

  const completed = (line: Json): ParsedEvent[] => {
    found.usage = without(usageOf(line.usage), run.usageBefore ?? NO_USAGE)
    found.totalCostUsd = price === null ? null : costOf(found.usage, price)
    found.hasResult = true
    found.failure = null
    const spent = { usage: found.usage, ...(found.totalCostUsd !== null && { total_cost_usd: found.totalCostUsd }) }
    return [
      { type: 'usage', ...spent },
      { type: 'result', text: found.responseText ?? '', is_error: false, num_turns: found.numTurns, ...spent },
    ]
  }

  const failed = (text: string): void => {
    found.failure = failureOf(text)
    // Codex does not tell what a failed turn has used; at its budget, that is the budget.
    if (found.failure.reason === 'budget') found.totalCostUsd = run.maxCostUsd
  }

  const item = (line: Json): ParsedEvent[] => {
    const it = record(line.item)
    const text = string(it.text) ?? ''
    if (it.type === 'agent_message') {
      if (line.type !== 'item.completed') return []
      found.responseText = response([text])
      return [{ type: 'text', text }]
    }
    if (it.type === 'reasoning') return [{ type: 'text', text, is_thinking: true }]
    if (it.type === 'error') return [{ type: 'error', text: string(it.message) ?? '' }]
    const tool = toolOf(it)
    if (tool === null) return []
    const id = name(it.id) ?? ''
    const use: ParsedEvent = { type: 'tool_use', tool_use_id: id, name: tool.name, ...toolInput(tool.input) }
    if (line.type === 'item.started') {
      if (begun.size < MAX_BEGUN) begun.add(id)
      return [use]
    }
    if (line.type !== 'item.completed') return []
    // Codex reports no turns. Each tool goes back to the model once more.
    found.numTurns += 1
    const result: ParsedEvent = { type: 'tool_result', tool_use_id: id, ...toolResult(tool.output), is_error: tool.isError }
    return begun.delete(id) ? [result] : [use, result]
  }

  const events = (line: Json): ParsedEvent[] => {
    switch (line.type) {
      case 'thread.started': {
        found.agentSessionId = sessionId(line.thread_id)
        return [
          {
            type: 'init',
            ...(found.agentSessionId !== null && { agent_session_id: found.agentSessionId }),
            ...(run.model !== null && { model: run.model }),
          },
        ]
      }
      case 'turn.started':
        found.numTurns += 1
        return []
      case 'turn.completed':
        return completed(line)
      case 'turn.failed': {
        const text = string(record(line.error).message) ?? ''
        failed(text)
        return [{ type: 'result', text, is_error: true, num_turns: found.numTurns }]
      }
      case 'error': {
        // Also said before a retry; a turn that is completed later takes it back.
        const text = string(line.message) ?? ''
        failed(text)
        return [{ type: 'error', text }]
      }
      default:
        return item(line)
    }
  }

  return {
    line: (text, truncated) => eventsOfLine(text, truncated, events),
    soFar: () => spentOf(found),
    conclude: end => conclude('codex', run, end, found),
  }
}

type Tool = { name: string; input: unknown; output: string; isError: boolean }

/** Null for an item that is no tool, such as a list of steps. */
function toolOf(it: Json): Tool | null {
  const isError = it.status === 'failed' || it.status === 'declined'
  switch (it.type) {
    case 'command_execution':
      return { name: 'shell', input: { command: it.command }, output: string(it.aggregated_output) ?? '', isError }
    case 'file_change':
      return { name: 'apply_patch', input: { changes: it.changes }, output: string(it.status) ?? '', isError }
    case 'mcp_tool_call': {
      const failure = string(record(it.error).message)
      const output = failure ?? contentText(record(it.result).content)
      return { name: `${name(it.server) ?? ''}.${name(it.tool) ?? ''}`, input: it.arguments, output, isError }
    }
    case 'web_search':
      return { name: 'web_search', input: { query: it.query }, output: '', isError }
    case 'collab_tool_call':
      return { name: name(it.tool) ?? 'agent', input: { prompt: it.prompt }, output: string(it.status) ?? '', isError }
    default:
      return null
  }
}

/** Input tokens of OpenAI contain those of the cache. */
function usageOf(value: unknown): Usage {
  const usage = record(value)
  const read = count(usage.cached_input_tokens)
  const written = count(usage.cache_write_input_tokens)
  return {
    input_tokens: Math.max(0, count(usage.input_tokens) - read - written),
    output_tokens: count(usage.output_tokens),
    cache_creation_input_tokens: written,
    cache_read_input_tokens: read,
  }
}

/** The usage in a line is that of the whole conversation. */
function without(whole: Usage, before: Usage): Usage {
  const left = (key: keyof Usage) => Math.max(0, whole[key] - before[key])
  return {
    input_tokens: left('input_tokens'),
    output_tokens: left('output_tokens'),
    cache_creation_input_tokens: left('cache_creation_input_tokens'),
    cache_read_input_tokens: left('cache_read_input_tokens'),
  }
}

/** A refused request (400) is reported as the body of the reply. */
function failureOf(text: string): Failure {
  const refusal = record(parseRecord(text)?.error)
  const message = string(refusal.message)
  if (message !== null) return { text: `${message} ${name(refusal.code) ?? ''}`.trim(), status: 400, reason: null }
  return { text, status: null, reason: text === 'budget reached' ? 'budget' : null }
}
