// Reads the lines of `opencode run --format json`.
import type { Usage } from '@sandglass/contract'
import type { AgentParser, ParsedEvent, ParsedRun } from './adapter.ts'
import { REFUSED } from './opencode-guard.ts'
import { conclude, type Failure, type Findings, NOTHING_FOUND, spentOf } from './outcome.ts'
import { costOf, priceOf } from './prices.ts'
import {
  addUsage,
  count,
  dollars,
  eventsOfLine,
  type Json,
  name,
  record,
  response,
  sessionId,
  string,
  toolInput,
  toolResult,
} from './untrusted.ts'

export function opencodeParser(run: ParsedRun): AgentParser {
  const found: Findings = { ...NOTHING_FOUND }
  const price = run.model === null ? null : priceOf(run.model)
  let lastMessage: unknown

  /** No line says that the agent has begun: the first one with the id of the session counts. */
  const init = (line: Json): ParsedEvent[] => {
    const id = sessionId(line.sessionID)
    if (id === null || found.agentSessionId !== null) return []
    found.agentSessionId = id
    return [{ type: 'init', agent_session_id: id, ...(run.model !== null && { model: run.model }) }]
  }

  const text = (part: Json): ParsedEvent => {
    const said = string(part.text) ?? ''
    if (part.type === 'reasoning') return { type: 'text', text: said, is_thinking: true }
    const earlier = part.messageID === lastMessage && found.responseText !== null ? [found.responseText] : []
    found.responseText = response([...earlier, said])
    lastMessage = part.messageID
    return { type: 'text', text: said }
  }

  /** The reason of a step is `stop` or another word when the model is done, and tool-calls when it goes on. */
  const stepFinish = (part: Json): ParsedEvent[] => {
    const usage = usageOf(part.tokens)
    const cost = stepCost(dollars(part.cost), usage)
    found.usage = addUsage(found.usage, usage)
    if (cost !== null) found.totalCostUsd = (found.totalCostUsd ?? 0) + cost
    found.numTurns += 1
    const step: ParsedEvent = { type: 'usage', usage, ...(cost !== null && { total_cost_usd: cost }) }
    if (part.reason === 'tool-calls') return [step]
    found.hasResult = true
    found.failure = null
    return [step, { type: 'result', text: found.responseText ?? '', is_error: false, num_turns: found.numTurns, ...spent() }]
  }

  /** OpenCode reports 0 for a model that its catalogue does not know. */
  const stepCost = (reported: number | null, usage: Usage): number | null => {
    if (reported !== 0 || Object.values(usage).every(tokens => tokens === 0)) return reported
    return price === null ? null : costOf(usage, price)
  }

  const spent = () => ({ usage: found.usage, ...(found.totalCostUsd !== null && { total_cost_usd: found.totalCostUsd }) })

  const events = (line: Json): ParsedEvent[] => {
    const part = record(line.part)
    switch (line.type) {
      case 'text':
      case 'reasoning':
        return [text(part)]
      case 'tool_use':
        return toolEvents(part)
      case 'step_finish':
        return stepFinish(part)
      case 'error':
        found.failure = failureOf(record(line.error))
        return [{ type: 'error', text: found.failure.text }]
      default:
        return []
    }
  }

  return {
    line: (raw, truncated) => eventsOfLine(raw, truncated, line => [...init(line), ...events(line)]),
    soFar: () => spentOf(found),
    conclude(end) {
      const isRefused = end.exitCode === REFUSED && found.agentSessionId === null
      const failure: Failure | null = isRefused ? { text: end.stderr, status: null, reason: 'start_failed' } : found.failure
      return conclude('opencode', run, end, { ...found, failure })
    },
  }
}

/** A tool has one line, when it is done. */
function toolEvents(part: Json): ParsedEvent[] {
  const state = record(part.state)
  const id = name(part.callID) ?? name(part.id) ?? ''
  const isError = state.status === 'error' || count(record(state.metadata).exit) > 0
  return [
    { type: 'tool_use', tool_use_id: id, name: name(part.tool) ?? '', ...toolInput(state.input) },
    { type: 'tool_result', tool_use_id: id, ...toolResult(string(state.output) ?? string(state.error) ?? ''), is_error: isError },
  ]
}

function usageOf(value: unknown): Usage {
  const tokens = record(value)
  const cache = record(tokens.cache)
  return {
    input_tokens: count(tokens.input),
    output_tokens: count(tokens.output) + count(tokens.reasoning),
    cache_creation_input_tokens: count(cache.write),
    cache_read_input_tokens: count(cache.read),
  }
}

function failureOf(error: Json): Failure {
  const data = record(error.data)
  const status = count(data.statusCode)
  const kind = name(error.name) ?? 'error'
  const text = string(data.message) ?? string(error.message) ?? kind
  return { text: `${kind}: ${text}`, status: status >= 400 ? status : null, reason: null }
}
