// Requests outside the policy that wait for a person. Requests for the same method, host and path wait for one answer. No answer in time means no.
import { LIMITS, newId } from '@sandglass/contract'
import type { HeldRequest } from './control/messages.ts'

/** Answered and expired ones that are kept, so that a daemon that was away learns of them. */
const KEPT = 1000

export interface HeldRequests {
  /** Resolves with the answer, or with why there is none: nobody answered in time, the program has gone, or too many wait. */
  hold(request: ApprovalRequest, signal: AbortSignal): Promise<HoldOutcome>
  /** Returns the request as it is now; null if it is unknown. */
  answer(id: string, allowed: boolean, scope: 'once' | 'session' | 'policy'): HeldRequest | null
  /** Lets go on what a changed policy allows. */
  release(sessionId: string, isAllowed: (request: HeldRequest) => boolean): void
  /** Refuses everything that waits of a session. */
  drop(sessionId: string): void
  list(): HeldRequest[]
}

export type HoldOutcome = 'allowed' | 'denied' | 'expired' | 'gone' | 'full'

/** What an outcome other than `allowed` means, for replies and logs. */
export const HOLD_REASONS: Readonly<Record<Exclude<HoldOutcome, 'allowed'>, string>> = {
  denied: 'a person refused it',
  expired: 'nobody approved it in time',
  gone: 'the program did not wait for an answer',
  full: 'too many requests of this session already wait for an answer',
}

export type ApprovalRequest = Pick<HeldRequest, 'sessionId' | 'sessionName' | 'method' | 'url' | 'host' | 'port'>

type Waiting = { held: HeldRequest; settle: Set<(outcome: HoldOutcome) => void>; timer: NodeJS.Timeout }

export function createHeldRequests(
  seconds: () => number,
  announce: (held: HeldRequest) => void,
  now: () => number = Date.now,
): HeldRequests {
  const waiting = new Map<string, Waiting>()
  const ended = new Map<string, HeldRequest>()

  function begin(asked: ApprovalRequest): Waiting {
    const ms = seconds() * 1000
    const held: HeldRequest = {
      ...asked,
      id: newId('appr_'),
      status: 'pending',
      scope: null,
      requests: 0,
      requestedAt: now(),
      expiresAt: now() + ms,
      answeredAt: null,
    }
    const entry: Waiting = { held, settle: new Set(), timer: setTimeout(() => end(held.id, 'expired', null), ms) }
    waiting.set(held.id, entry)
    return entry
  }

  function end(id: string, status: 'allowed' | 'denied' | 'expired', scope: HeldRequest['scope']): HeldRequest | null {
    const entry = waiting.get(id)
    if (entry === undefined) return ended.get(id) ?? null
    waiting.delete(id)
    clearTimeout(entry.timer)
    const held = { ...entry.held, status, scope, answeredAt: status === 'expired' ? null : now() }
    ended.set(id, held)
    if (ended.size > KEPT) ended.delete(ended.keys().next().value ?? '')
    for (const settle of entry.settle) settle(status)
    announce(held)
    return held
  }

  const sameAs = (asked: ApprovalRequest) => (entry: Waiting) =>
    entry.held.sessionId === asked.sessionId && entry.held.method === asked.method && entry.held.url === asked.url

  return {
    hold(asked, signal) {
      if (signal.aborted) return Promise.resolve('gone')
      const all = [...waiting.values()]
      const found = all.find(sameAs(asked))
      const count = all.filter(({ held }) => held.sessionId === asked.sessionId).length
      if (found === undefined && count >= LIMITS.waiting_approvals.max) return Promise.resolve('full')
      const entry = found ?? begin(asked)
      entry.held = { ...entry.held, requests: entry.held.requests + 1 }
      announce(entry.held)
      return new Promise(resolve => {
        const onAbort = () => {
          entry.settle.delete(settle)
          entry.held = { ...entry.held, requests: entry.held.requests - 1 }
          // Nobody waits for the answer any more.
          if (entry.held.requests === 0) end(entry.held.id, 'expired', null)
          resolve('gone')
        }
        const settle = (outcome: HoldOutcome) => {
          signal.removeEventListener('abort', onAbort)
          resolve(outcome)
        }
        entry.settle.add(settle)
        signal.addEventListener('abort', onAbort, { once: true })
      })
    },
    release(sessionId, isAllowed) {
      for (const { held } of [...waiting.values()])
        if (held.sessionId === sessionId && isAllowed(held)) end(held.id, 'allowed', null)
    },
    answer: (id, allowed, scope) => end(id, allowed ? 'allowed' : 'denied', scope),
    drop(sessionId) {
      for (const { held } of [...waiting.values()]) if (held.sessionId === sessionId) end(held.id, 'expired', null)
    },
    list: () => [...[...waiting.values()].map(({ held }) => held), ...ended.values()],
  }
}
