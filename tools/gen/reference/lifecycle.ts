import { FINAL_STATES, REASONS, SESSION_LIFECYCLE, SESSION_STATES } from '@sandglass/contract'
import { list, page, quote, table } from '../markdown.ts'

export function lifecyclePage(): string {
  const arrows = SESSION_STATES.flatMap(state =>
    Object.entries(SESSION_LIFECYCLE[state]).map(([event, next]) => `  ${state} --> ${next}: ${event}`),
  )
  const finals = FINAL_STATES.map(state => `  ${state} --> [*]`)
  const rows = SESSION_STATES.map(state => {
    const events = Object.entries(SESSION_LIFECYCLE[state]).map(([event, next]) => `${quote(event)} → ${next}`)
    return [quote(state), events.join(', ') || 'nothing: final']
  })
  return page(
    'The life of a session',
    ['```mermaid', 'stateDiagram-v2', '  [*] --> creating', ...arrows, ...finals, '```'].join('\n'),
    table(['state', 'events'], rows),
    'An event that is not in the row of the current state is refused with `WRONG_STATE`.',
    `Each state carries the reason it was entered for: ${list(REASONS)}.`,
  )
}
