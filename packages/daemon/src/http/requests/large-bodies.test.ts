import { type ClientRequest, request } from 'node:http'
import { expect, it, test } from 'vitest'
import { Semaphore } from '../../lib/semaphore.ts'
import { daemonFixture, KEY, type TestDaemon } from '../../testing/daemon.fixture.ts'
import { reserveBody } from './large-bodies.ts'

const MiB = 1024 * 1024
const never = new AbortController().signal

test('a request that waits too long for its share of the budget is refused', async () => {
  const budget = new Semaphore(10)
  const release = await reserveBody(budget, 8, never)
  await expect(reserveBody(budget, 5, never, 10)).rejects.toMatchObject({ code: 'TOO_MANY_WAITING' })
  release()
  expect(budget.taken).toBe(0)
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
