import { setImmediate as tick } from 'node:timers/promises'
import { expect, test } from 'vitest'
import { KeyedMutex } from './keyed-mutex.ts'

test('work under one key runs in the order of the calls, and a failure does not block the next', async () => {
  const mutex = new KeyedMutex()
  const log: string[] = []
  const piece = (name: string) => async () => {
    log.push(`${name} starts`)
    await tick()
    log.push(`${name} ends`)
    if (name === 'a') throw new Error('a failed')
  }
  const [a, b] = await Promise.allSettled([mutex.run('key', piece('a')), mutex.run('key', piece('b'))])
  expect([a?.status, b?.status]).toEqual(['rejected', 'fulfilled'])
  expect(log).toEqual(['a starts', 'a ends', 'b starts', 'b ends'])
})

test('work under different keys runs at once', async () => {
  const mutex = new KeyedMutex()
  const { promise, resolve } = Promise.withResolvers<void>()
  const first = mutex.run('a', () => promise)
  await mutex.run('b', async () => resolve())
  await first
})
