// Reads the fields of JSON that a sandbox wrote: every value is checked and bounded, a wrong one counts as absent, and nothing throws.
import type { Usage } from '@sandglass/contract'
import type { ParsedEvent } from './adapter.ts'

export type Json = Record<string, unknown>

/** Longest tool result in an event, in bytes. */
export const MAX_TOOL_RESULT_BYTES = 65_536
/** Longest answer of an agent: it is in the task, in lists of tasks and in context.json. */
export const MAX_RESPONSE_CHARACTERS = 256 * 1024
const MAX_INPUT_DEPTH = 64
const NAME_CHARACTERS = 200
/** Blocks of one message. Each becomes an event, which is longer than the block. */
const MAX_BLOCKS = 1000
/** More than any conversation costs; sums of such numbers stay finite. */
const MAX_DOLLARS = 1e9

/** The events of a line of JSON; one of type other for any line that `read` does not understand. */
export function eventsOfLine(text: string, truncated: boolean, read: (line: Json) => ParsedEvent[]): ParsedEvent[] {
  const line = truncated ? null : parseRecord(text)
  const events = line === null ? [] : read(line)
  return events.length > 0 ? events : [{ type: 'other', ...(truncated && { truncated }) }]
}

/** The object in a line; null for any other line. */
export function parseRecord(line: string): Json | null {
  try {
    const value: unknown = JSON.parse(line)
    return isRecord(value) ? value : null
  } catch {
    return null // The line is no JSON, or is nested too deeply for the parser.
  }
}

export function record(value: unknown): Json {
  return isRecord(value) ? value : {}
}

export function records(value: unknown): Json[] {
  return Array.isArray(value) ? value.slice(0, MAX_BLOCKS).filter(isRecord) : []
}

export function string(value: unknown): string | null {
  return typeof value === 'string' ? value.toWellFormed() : null
}

/** A name or an id in an event. */
export function name(value: unknown): string | undefined {
  if (typeof value !== 'string' || value === '') return undefined
  // A copy: a slice would keep the whole line in memory as long as the name.
  return value.length <= NAME_CHARACTERS
    ? value.toWellFormed()
    : Buffer.from(value.slice(0, NAME_CHARACTERS).toWellFormed()).toString()
}

/** Parts of one answer. */
export function response(texts: readonly string[]): string {
  return texts.join('\n\n').slice(0, MAX_RESPONSE_CHARACTERS).toWellFormed()
}

/** SECURITY: the id becomes an argument of the next run, so it must not look like an option. */
export function sessionId(value: unknown): string | null {
  return typeof value === 'string' && /^[A-Za-z0-9][A-Za-z0-9_-]{0,199}$/.test(value) ? value : null
}

/** A number of tokens, turns or milliseconds. */
export function count(value: unknown): number {
  return typeof value === 'number' && value >= 0 && Number.isSafeInteger(Math.round(value)) ? Math.round(value) : 0
}

export function dollars(value: unknown): number | null {
  return typeof value === 'number' && value >= 0 && value <= MAX_DOLLARS ? value : null
}

export function addUsage(a: Usage, b: Usage): Usage {
  return {
    input_tokens: count(a.input_tokens + b.input_tokens),
    output_tokens: count(a.output_tokens + b.output_tokens),
    cache_creation_input_tokens: count(a.cache_creation_input_tokens + b.cache_creation_input_tokens),
    cache_read_input_tokens: count(a.cache_read_input_tokens + b.cache_read_input_tokens),
  }
}

export const NO_USAGE: Usage = {
  input_tokens: 0,
  output_tokens: 0,
  cache_creation_input_tokens: 0,
  cache_read_input_tokens: 0,
}

/** The text of a message, or of the blocks that it consists of. Images and other blocks are named by their type. */
export function contentText(content: unknown): string {
  const whole = string(content)
  if (whole !== null) return whole
  return records(content)
    .map(({ type, text }) => string(text) ?? `[${name(type) ?? 'block'}]`)
    .join('\n')
}

/** Fields of an event for what a tool gave back. */
export function toolResult(text: string): { content: string; truncated?: true } {
  const bytes = Buffer.from(text)
  if (bytes.length <= MAX_TOOL_RESULT_BYTES) return { content: text }
  // A character that the limit cuts in two is left out.
  const content = new TextDecoder().decode(bytes.subarray(0, MAX_TOOL_RESULT_BYTES), { stream: true })
  return { content, truncated: true }
}

/** Fields of an event for the input of a tool. */
export function toolInput(value: unknown): { input?: unknown; truncated?: true } {
  if (value === undefined) return {}
  return isShallow(value) ? { input: value } : { truncated: true }
}

/** False for deep nesting: whatever serializes the value walks it recursively. */
export function isShallow(value: unknown, depth = MAX_INPUT_DEPTH): boolean {
  if (typeof value !== 'object' || value === null) return true
  return depth > 0 && Object.values(value).every(inner => isShallow(inner, depth - 1))
}

function isRecord(value: unknown): value is Json {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}
