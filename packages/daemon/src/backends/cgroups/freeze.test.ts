import { expect, test } from 'vitest'
import { type Freezer, stop } from './freeze.ts'

/** A kernel that has come to a stop once that was asked of it for this long without a break. `asked` is all that was. */
function slowKernel(canStick: boolean, stopsAfterMs: number): Freezer & { asked: string } {
  let since = Date.now()
  return {
    canStick,
    asked: '',
    async ask(frozen) {
      if (!frozen) since = Date.now()
      this.asked += frozen ? '1' : '0'
    },
    is: async frozen => frozen && Date.now() - since >= stopsAfterMs,
  }
}

test('a kernel that can stick is let go now and then, and still given the time that it needs', async () => {
  const kernel = slowKernel(true, 1000)
  await stop(kernel)
  expect(kernel.asked).toMatch(/^1+(01+)+$/)
})

test('one that cannot stick is not let go', async () => {
  const kernel = slowKernel(false, 1000)
  await stop(kernel)
  expect(kernel.asked).toMatch(/^1+$/)
})

test.each([true, false])('what does not stop goes on, and that is said; can stick: %s', async canStick => {
  const kernel = slowKernel(canStick, Number.POSITIVE_INFINITY)
  await expect(stop(kernel, 500)).rejects.toMatchObject({ code: 'PAUSE_FAILED', detail: { seconds: 0.5 } })
  expect(kernel.asked).toMatch(/10$/)
})

test('what cannot be looked at goes on', async () => {
  const kernel = { ...slowKernel(true, 0), is: () => Promise.reject(new Error('too many open files')) }
  await expect(stop(kernel)).rejects.toThrow('too many open files')
  expect(kernel.asked).toBe('10')
})
