import { expect, it } from 'vitest'
import { JoinedWork } from './joined-work.ts'

const begun = () =>
  new JoinedWork(
    { end: () => undefined },
    (_, signal) => new Promise<never>((_, reject) => signal.addEventListener('abort', () => reject(signal.reason))),
  )

it('goes on while somebody waits, and is given up with the last who does', async () => {
  const work = begun()
  const [first, second] = [new AbortController(), new AbortController()]
  const joined = [work.join(first.signal), work.join(second.signal)]
  first.abort(new Error('left'))
  await expect(joined[0]).rejects.toThrow('left')
  expect(work.isGivenUp).toBe(false)
  second.abort(new Error('left too'))
  await expect(joined[1]).rejects.toThrow('left too')
  expect(work.isGivenUp).toBe(true)
  await work.over()
})

it('is given up when the one who began it had left before joining', async () => {
  const work = begun()
  await expect(work.join(AbortSignal.abort(new Error('gone')))).rejects.toThrow('gone')
  expect(work.isGivenUp).toBe(true)
  await work.over()
})
