import { setImmediate as tick } from 'node:timers/promises'
import { expect, test } from 'vitest'
import { Semaphore } from './semaphore.ts'

test('never gives out more units than it has, and serves callers first in, first out', async () => {
  const semaphore = new Semaphore(10)
  const order: number[] = []
  let most = 0
  await Promise.all(
    [6, 6, 2, 10, 50, 1].map(async (units, i) => {
      const release = await semaphore.acquire(undefined, units)
      order.push(i)
      most = Math.max(most, semaphore.taken)
      await tick()
      release()
      release()
    }),
  )
  expect([order, most, semaphore.taken]).toEqual([[0, 1, 2, 3, 4, 5], 10, 0])
})

test('a caller that leaves the queue lets those behind it go on', async () => {
  const semaphore = new Semaphore(10)
  const release = await semaphore.acquire(undefined, 8)
  const gone = new AbortController()
  const large = semaphore.acquire(gone.signal, 5)
  const small = semaphore.acquire(undefined, 2)
  expect(semaphore.isFull).toBe(true)
  gone.abort(new Error('left'))
  await expect(large).rejects.toThrow('left')
  await small
  release()
  expect(semaphore.taken).toBe(2)
})

test('an abort right after the units were granted removes no other caller from the queue', async () => {
  const semaphore = new Semaphore(1)
  const release = await semaphore.acquire()
  const left = new AbortController()
  const first = semaphore.acquire(left.signal)
  const second = semaphore.acquire()
  release()
  left.abort(new Error('left'))
  ;(await first)()
  ;(await second)()
  expect(semaphore.taken).toBe(0)
})

test('run releases its unit when the work fails', async () => {
  const semaphore = new Semaphore(1)
  await expect(semaphore.run(() => Promise.reject(new Error('failed')))).rejects.toThrow('failed')
  expect(semaphore.isFull).toBe(false)
})
