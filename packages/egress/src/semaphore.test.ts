import { expect, it } from 'vitest'
import { createSemaphore } from './semaphore.ts'

const never = new AbortController().signal

it('as many as there are places go on at once, and the next one when a place is given back', async () => {
  const semaphore = createSemaphore(2)
  const first = await semaphore.acquire(never)
  await semaphore.acquire(never)
  const order: string[] = []
  const third = semaphore.acquire(never).then(place => {
    order.push('third')
    return place
  })
  await Promise.resolve()
  expect(order).toEqual([])
  first[Symbol.dispose]()
  first[Symbol.dispose]()
  await third
  const aborted = new AbortController()
  const fourth = semaphore.acquire(aborted.signal)
  aborted.abort(new Error('gone'))
  await expect(fourth).rejects.toThrow('gone')
  ;(await third)[Symbol.dispose]()
  await semaphore.acquire(never)
})
