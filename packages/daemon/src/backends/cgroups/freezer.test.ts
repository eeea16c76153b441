import { expect, test } from 'vitest'
import { type Freezer, freezeWith } from './freezer.ts'

/** A kernel that is frozen once the request has stood for this long without a thaw. `requests` is the list of all requests. */
function slowKernel(canStick: boolean, freezesAfterMs: number): Freezer & { requests: string } {
  let since = Date.now()
  return {
    canStick,
    requests: '',
    async request(frozen) {
      if (!frozen) since = Date.now()
      this.requests += frozen ? '1' : '0'
    },
    is: async frozen => frozen && Date.now() - since >= freezesAfterMs,
  }
}

test('a freezer that can stick is thawed now and then, and still gets the time that it needs', async () => {
  const kernel = slowKernel(true, 1000)
  await freezeWith(kernel)
  expect(kernel.requests).toMatch(/^1+(01+)+$/)
})

test('a freezer that cannot stick is not thawed', async () => {
  const kernel = slowKernel(false, 1000)
  await freezeWith(kernel)
  expect(kernel.requests).toMatch(/^1+$/)
})

test.each([true, false])('a freeze that misses its deadline thaws the processes and fails; can stick: %s', async canStick => {
  const kernel = slowKernel(canStick, Number.POSITIVE_INFINITY)
  await expect(freezeWith(kernel, 500)).rejects.toMatchObject({ code: 'PAUSE_FAILED', detail: { seconds: 0.5 } })
  expect(kernel.requests).toMatch(/10$/)
})

test('a freeze whose state cannot be read thaws the processes and fails', async () => {
  const kernel = { ...slowKernel(true, 0), is: () => Promise.reject(new Error('too many open files')) }
  await expect(freezeWith(kernel)).rejects.toThrow('too many open files')
  expect(kernel.requests).toBe('10')
})
