import { type ClientRequest, request } from 'node:http'
import { describe, expect, it } from 'vitest'
import { daemonFixture, KEY, type TestDaemon } from '../daemon.fixture.ts'
import { ByteBudget } from './large-bodies.ts'

const MiB = 1024 * 1024
const never = new AbortController().signal

describe('a budget of bytes', () => {
  it('is never exceeded, and waiters are served first in, first out', async () => {
    const budget = new ByteBudget(10)
    const order: number[] = []
    let most = 0
    await Promise.all(
      [6, 6, 2, 10, 50, 1].map(async (bytes, i) => {
        const release = await budget.take(bytes, never)
        order.push(i)
        most = Math.max(most, budget.taken)
        await new Promise(resolve => setImmediate(resolve))
        release()
        release()
      }),
    )
    expect([order, most, budget.taken]).toEqual([[0, 1, 2, 3, 4, 5], 10, 0])
  })

  it('lets those behind go on when one gives up, and refuses one that waits too long', async () => {
    const budget = new ByteBudget(10)
    const release = await budget.take(8, never)
    const gone = new AbortController()
    const large = budget.take(5, gone.signal)
    const small = budget.take(2, never)
    gone.abort(new Error('left'))
    await expect(large).rejects.toThrow('left')
    await small
    await expect(budget.take(5, never, 10)).rejects.toMatchObject({ code: 'TOO_MANY_WAITING' })
    release()
    expect(budget.taken).toBe(2)
  })
})

/** Declares a body of so many bytes and sends only its beginning. */
function beginWrite({ url }: TestDaemon, id: string, bytes: number): ClientRequest {
  const headers = { authorization: `Bearer ${KEY}`, 'content-type': 'application/json', 'content-length': bytes }
  const sent = request(`${url}/v1/sessions/${id}/fs/write`, { method: 'POST', headers }).on('error', () => undefined)
  sent.write('{')
  return sent
}

it('contents of files that together are too large for memory wait for each other, and other requests do not', async () => {
  const daemon = await daemonFixture()
  const { id } = await daemon.create()
  const begun = [1, 2].map(() => beginWrite(daemon, id, 90 * MiB))
  const large = JSON.stringify({ path: 'large', text: 'x'.repeat(20 * MiB) })
  const waits = daemon.call('POST', `/v1/sessions/${id}/fs/write`, large)
  const small = await daemon.call('POST', `/v1/sessions/${id}/fs/write`, { path: 'small', text: 'x' })
  expect(small.status).toBe(200)
  expect(await daemon.call('GET', `/v1/sessions/${id}/fs/stat?path=large`)).toMatchObject({ status: 404 })
  for (const sent of begun) sent.destroy()
  expect((await waits).status).toBe(200)
  // Clients that leave are no failure of the daemon.
  expect(daemon.logged.filter(({ level }) => level === 'error')).toEqual([])
})
