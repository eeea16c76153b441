import { AGENTS, TaskEvent } from '@sandglass/contract'
import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { recorded } from '../testing/recorded.fixture.ts'
import { aRun } from '../testing/run.fixture.ts'
import { ADAPTERS } from './adapters.ts'
import { MAX_RESPONSE_CHARACTERS, MAX_TOOL_RESULT_BYTES } from './untrusted.ts'

const END = { exitCode: 0, timedOut: false, wasStopped: false, stderr: '', limitHit: null }
const Event = TaskEvent.omit({ id: true, at: true, raw: true })

describe.each(AGENTS)('the parser of %s', agent => {
  const parser = () => ADAPTERS[agent].parser(aRun({ model: 'gpt-5.5' }))
  const lines = recorded(agent).flatMap(one => one.lines)

  /** Gives a line to a fresh parser, and checks that whatever comes out fits the contract and can be stored. */
  const feed = (...texts: string[]) => {
    const one = parser()
    for (const text of texts) {
      const events = one.line(text, false)
      expect(events.length).toBeGreaterThan(0)
      for (const event of events) {
        expect(event.type).not.toBe('status')
        Event.parse(JSON.parse(JSON.stringify(event)))
      }
    }
    const { usage, numTurns, totalCostUsd } = one.conclude(END)
    for (const count of [...Object.values(usage), numTurns]) expect(Number.isSafeInteger(count) && count >= 0).toBe(true)
    expect(totalCostUsd === null || Number.isFinite(totalCostUsd)).toBe(true)
  }

  test('every recorded line fits the contract', () => feed(...lines))

  test('any text gives an event', () => {
    fc.assert(fc.property(fc.array(fc.string({ unit: 'binary' })), texts => feed('', ...texts)))
  })

  test('any value in any place of a real line gives an event', () => {
    const real = fc.constantFrom(...lines.filter(line => line.startsWith('{')))
    const value = fc.oneof(fc.jsonValue(), fc.constantFrom(1e308, -1, 0.5, '__proto__', '\ud800', '\0', [], {}, null, [[[]]]))
    const mutated = fc.tuple(real, fc.nat(), value).map(([line, at, put]) => mutate(line, at, put))
    fc.assert(
      fc.property(fc.array(mutated, { minLength: 1, maxLength: 5 }), texts => feed(...texts)),
      { numRuns: 300 },
    )
  })

  test('deep nesting gives an event that can be stored', () => {
    const deep = `${'['.repeat(50_000)}${']'.repeat(50_000)}`
    feed(deep, `{"type":"assistant","message":{"content":[{"type":"tool_use","id":"a","name":"b","input":${deep}}]}}`)
    feed(`{"type":"item.completed","item":{"id":"a","type":"mcp_tool_call","arguments":${deep}}}`)
    feed(`{"type":"tool_use","sessionID":"a","part":{"callID":"a","state":{"input":${deep}}}}`)
  })

  test('a line that was cut off is an event of its own', () => {
    expect(parser().line('{"type":"assis', true)).toEqual([{ type: 'other', truncated: true }])
  })

  test('an id that looks like an option is no session id', () => {
    const one = parser()
    one.line('{"type":"system","subtype":"init","session_id":"--help"}', false)
    one.line('{"type":"thread.started","thread_id":"-c"}', false)
    one.line('{"type":"step_start","sessionID":"--share"}', false)
    expect(one.conclude(END).agentSessionId).toBeNull()
  })

  test('an answer in ever more parts does not grow for ever', () => {
    const one = parser()
    const text = 'x'.repeat(MAX_RESPONSE_CHARACTERS / 2)
    for (let i = 0; i < 5; i++) {
      one.line(JSON.stringify({ type: 'assistant', message: { id: 'a', content: [{ type: 'text', text }] } }), false)
      one.line(JSON.stringify({ type: 'item.completed', item: { id: 'a', type: 'agent_message', text: text.repeat(3) } }), false)
      one.line(JSON.stringify({ type: 'text', part: { messageID: 'a', text } }), false)
    }
    expect(one.conclude(END).responseText).toHaveLength(MAX_RESPONSE_CHARACTERS)
  })

  test('a message of very many blocks gives a bounded number of events', () => {
    const content = Array.from({ length: 100_000 }, () => ({}))
    for (const type of ['assistant', 'user'])
      expect(parser().line(JSON.stringify({ type, parent_tool_use_id: 'a', message: { content } }), false).length).toBeLessThan(
        2000,
      )
  })

  test('costs and turns that no conversation has do not add up to infinity', () => {
    const huge = { num_turns: Number.MAX_SAFE_INTEGER, total_cost_usd: 1.7e308, duration_ms: Number.MAX_SAFE_INTEGER }
    const models = { a: { costUSD: 1.7e308 }, b: { costUSD: 1.7e308 } }
    const line = JSON.stringify({ type: 'result', ...huge, model_usage_since_last_result: models })
    const step = JSON.stringify({ type: 'step_finish', part: { cost: 1.7e308, reason: 'stop' } })
    feed(line, line, step, step)
  })

  test('a long tool result is cut at a whole character', () => {
    const long = `x${'é'.repeat(MAX_TOOL_RESULT_BYTES)}`
    const results = [
      { type: 'user', message: { content: [{ type: 'tool_result', tool_use_id: 'a', content: long }] } },
      { type: 'item.completed', item: { id: 'a', type: 'command_execution', aggregated_output: long } },
      { type: 'tool_use', part: { callID: 'a', state: { output: long } } },
    ].flatMap(line => parser().line(JSON.stringify(line), false))
    const result = results.find(({ type }) => type === 'tool_result')
    expect(result?.truncated).toBe(true)
    expect(Buffer.byteLength(result?.content ?? '')).toBe(MAX_TOOL_RESULT_BYTES - 1)
    expect(result?.content?.endsWith('é')).toBe(true)
  })
})

/** Replaces one value of a line, the `at`th in the order of its text. */
function mutate(line: string, at: number, put: unknown): string {
  let left = at % 40
  return JSON.stringify(JSON.parse(line), (_key, value) => (left-- === 0 ? put : value))
}
