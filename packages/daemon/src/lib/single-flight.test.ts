import { expect, it } from 'vitest'
import { SingleFlight } from './single-flight.ts'

const noProgress = () => ({ end: () => undefined })
const untilAborted = (_: unknown, signal: AbortSignal) =>
  new Promise<never>((_, reject) => signal.addEventListener('abort', () => reject(signal.reason)))
const begun = (flights = new SingleFlight<never, { end(): void }>()) => flights.start('key', noProgress, untilAborted)

it('shares one run between callers, and aborts it when the last of them leaves', async () => {
  const flights = new SingleFlight<never, { end(): void }>()
  const work = begun(flights)
  expect(begun(flights)).toBe(work)
  const [first, second] = [new AbortController(), new AbortController()]
  const joined = [work.join(first.signal), work.join(second.signal)]
  first.abort(new Error('left'))
  await expect(joined[0]).rejects.toThrow('left')
  expect(work.isAborted).toBe(false)
  second.abort(new Error('left too'))
  await expect(joined[1]).rejects.toThrow('left too')
  expect(work.isAborted).toBe(true)
  await work.settled()
})

it('aborts a run whose only caller had left before joining', async () => {
  const work = begun()
  await expect(work.join(AbortSignal.abort(new Error('gone')))).rejects.toThrow('gone')
  expect(work.isAborted).toBe(true)
  await work.settled()
})

it('starts a new run only after the aborted one before it has stopped', async () => {
  const flights = new SingleFlight<string, { end(): void }>()
  const stopped = Promise.withResolvers<void>()
  const log: string[] = []
  const first = flights.start('key', noProgress, async () => {
    await stopped.promise
    log.push('first stopped')
    return 'first'
  })
  await expect(first.join(AbortSignal.abort(new Error('gone')))).rejects.toThrow('gone')
  const second = flights.start('key', noProgress, async () => {
    log.push('second runs')
    return 'second'
  })
  expect(second).not.toBe(first)
  const result = second.join(new AbortController().signal)
  stopped.resolve()
  expect(await result).toBe('second')
  expect(log).toEqual(['first stopped', 'second runs'])
  expect(flights.get('key')).toBeUndefined()
})
