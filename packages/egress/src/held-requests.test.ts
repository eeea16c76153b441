import { LIMITS } from '@sandglass/contract'
import { describe, expect, it, vi } from 'vitest'
import type { HeldRequest } from './control/messages.ts'
import { type ApprovalRequest, createHeldRequests } from './held-requests.ts'

const ASKED: ApprovalRequest = {
  sessionId: 'sess_a',
  sessionName: 'a',
  method: 'GET',
  url: 'https://example.com/x',
  host: 'example.com',
  port: 443,
}
const never = new AbortController().signal

function fixture(seconds = 300) {
  const told: HeldRequest[] = []
  const held = createHeldRequests(
    () => seconds,
    request => told.push(request),
  )
  return { held, told, idOf: (url: string) => told.findLast(request => request.url === url)?.id ?? '' }
}

describe('a held request', () => {
  it('waits for its answer, and everyone is told of both', async () => {
    const { held, told, idOf } = fixture()
    const allowed = held.hold(ASKED, never)
    expect(held.answer(idOf(ASKED.url), true, 'once')).toMatchObject({ status: 'allowed', scope: 'once' })
    expect(await allowed).toBe('allowed')
    expect(told.map(({ status }) => status)).toEqual(['pending', 'allowed'])
  })

  it('shares its answer with later requests for the same method and URL, and with no other', async () => {
    const { held, told, idOf } = fixture()
    const both = [held.hold(ASKED, never), held.hold(ASKED, never)]
    const other = held.hold({ ...ASKED, url: 'https://example.com/y' }, never)
    expect(told.findLast(({ url }) => url === ASKED.url)?.requests).toBe(2)
    held.answer(idOf(ASKED.url), false, 'once')
    expect(await Promise.all(both)).toEqual(['denied', 'denied'])
    held.answer(idOf('https://example.com/y'), true, 'once')
    expect(await other).toBe('allowed')
  })

  it('is refused when nobody answers in time', async () => {
    vi.useFakeTimers()
    try {
      const { held, told } = fixture(5)
      const allowed = held.hold(ASKED, never)
      vi.advanceTimersByTime(5000)
      expect(await allowed).toBe('expired')
      expect(told.at(-1)?.status).toBe('expired')
    } finally {
      vi.useRealTimers()
    }
  })

  it('is refused when its program goes away, and no longer waits', async () => {
    const { held } = fixture()
    const gone = new AbortController()
    const allowed = held.hold(ASKED, gone.signal)
    gone.abort()
    expect(await allowed).toBe('gone')
    expect(held.list().map(({ status }) => status)).toEqual(['expired'])
  })

  it('goes on when the policy allows it meanwhile', async () => {
    const { held } = fixture()
    const [one, other] = [
      held.hold(ASKED, never),
      held.hold({ ...ASKED, host: 'other.example', url: 'https://other.example/' }, never),
    ]
    held.release('sess_a', ({ host }) => host === 'example.com')
    expect(await one).toBe('allowed')
    held.drop('sess_a')
    expect(await other).toBe('expired')
  })

  it('keeps its first answer', async () => {
    const { held, idOf } = fixture()
    const allowed = held.hold(ASKED, never)
    held.answer(idOf(ASKED.url), false, 'once')
    expect(held.answer(idOf(ASKED.url), true, 'once')?.status).toBe('denied')
    expect(await allowed).toBe('denied')
  })

  it('is refused at once when too many of the session wait, and other sessions are not affected', async () => {
    const { held } = fixture()
    for (let i = 0; i < LIMITS.waiting_approvals.max; i++) void held.hold({ ...ASKED, url: `https://example.com/${i}` }, never)
    expect(await held.hold({ ...ASKED, url: 'https://example.com/more' }, never)).toBe('full')
    void held.hold({ ...ASKED, sessionId: 'sess_b' }, never)
    expect(held.list().filter(({ sessionId }) => sessionId === 'sess_b')).toHaveLength(1)
    held.drop('sess_a')
    expect(held.list().filter(({ status }) => status === 'pending')).toHaveLength(1)
  })
})
