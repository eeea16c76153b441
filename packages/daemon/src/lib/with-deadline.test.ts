import { expect, it } from 'vitest'
import { withDeadline } from './with-deadline.ts'

it('settles with work that is done in time, and rejects when it is not', async () => {
  expect(await withDeadline(Promise.resolve(1), 10_000)).toBe(1)
  await expect(withDeadline(Promise.reject(new Error('no luck')), 10_000)).rejects.toThrow('no luck')
  await expect(withDeadline(new Promise(() => undefined), 1)).rejects.toThrow('no answer within 1 ms')
})
