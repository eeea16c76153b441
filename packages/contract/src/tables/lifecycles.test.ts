import { describe, expect, it } from 'vitest'
import { SandglassError } from '../errors/sandglass-error.ts'
import {
  EXPIRABLE_STATES,
  FINAL_STATES,
  LIVE_STATES,
  nextState,
  REASONS,
  SESSION_EVENTS,
  SESSION_LIFECYCLE,
  SESSION_STATES,
  STARTABLE_STATES,
} from './lifecycles.ts'

const ID = 'sess_0000000000000000'

// What each state may become, written out a second time on purpose: a slip in the table shows here.
const MAY_BECOME: Record<string, string[]> = {
  creating: ['running', 'stopped', 'failed', 'terminated'],
  running: ['paused', 'stopping', 'completed', 'failed', 'timeout', 'terminated'],
  paused: ['running', 'stopping', 'failed', 'timeout', 'terminated'],
  stopping: ['stopped', 'failed', 'terminated'],
  stopped: ['starting', 'failed', 'timeout', 'terminated'],
  starting: ['running', 'failed', 'terminated'],
  failed: ['starting', 'terminated'],
  completed: [],
  timeout: [],
  terminated: [],
}

describe('the session lifecycle', () => {
  it.each(SESSION_STATES)('%s leads exactly where the design says', state => {
    expect(Object.values(SESSION_LIFECYCLE[state]).toSorted()).toEqual(MAY_BECOME[state]?.toSorted())
  })

  const pairs = SESSION_STATES.flatMap(state => SESSION_EVENTS.map(event => ({ state, event })))
  it.each(pairs)('$event in $state is either in the table or refused with WRONG_STATE', ({ state, event }) => {
    const row: Record<string, string> = SESSION_LIFECYCLE[state]
    const expected = row[event]
    if (expected) {
      expect(nextState(ID, state, event)).toBe(expected)
      return
    }
    expect(() => nextState(ID, state, event)).toThrow(new SandglassError('WRONG_STATE', { id: ID, name: ID, state, event }))
  })

  it('every state can be reached from creating', () => {
    const reached = new Set<string>(['creating'])
    for (const state of reached) for (const next of MAY_BECOME[state] ?? []) reached.add(next)
    expect([...reached].toSorted()).toEqual([...SESSION_STATES].toSorted())
  })

  it('completed, timeout and terminated are final, and nothing else is', () => {
    expect(FINAL_STATES).toEqual(['completed', 'timeout', 'terminated'])
  })

  it('the live, startable and expirable states follow from the table', () => {
    expect(LIVE_STATES).toEqual(['running', 'paused'])
    expect(STARTABLE_STATES).toEqual(['stopped', 'failed'])
    expect(EXPIRABLE_STATES).toEqual(['running', 'paused', 'stopped'])
  })

  it('every state that is not final can be terminated', () => {
    for (const state of SESSION_STATES.filter(s => !FINAL_STATES.includes(s)))
      expect(nextState(ID, state, 'terminate')).toBe('terminated')
  })

  it('no reason is listed twice', () => {
    expect(new Set(REASONS).size).toBe(REASONS.length)
  })
})
