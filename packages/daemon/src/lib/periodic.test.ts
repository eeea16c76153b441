import { expect, it, onTestFinished } from 'vitest'
import { Periodic } from './periodic.ts'

function counted(work: (run: number) => Promise<number>, onError: (error: unknown) => number = () => 10_000, maxMs = 10_000) {
  let runs = 0
  const periodic = new Periodic({ work: () => work(++runs), onError, maxMs })
  onTestFinished(() => periodic.stop())
  return { periodic, runs: () => runs }
}

it('a run decides when the next one begins', async () => {
  const { periodic, runs } = counted(async run => (run < 3 ? 1 : 10_000))
  periodic.start(0)
  await expect.poll(runs).toBe(3)
})

it('a wake brings the next run forward, and a later one does not put it off', async () => {
  const { periodic, runs } = counted(async () => 10_000)
  periodic.start()
  periodic.wakeIn(1)
  periodic.wakeIn(9_000)
  await expect.poll(runs).toBe(1)
})

it('a run that hangs does not hold up a wake, and stop waits for it', async () => {
  const { promise, resolve } = Promise.withResolvers<number>()
  const { periodic, runs } = counted(run => (run === 1 ? promise : Promise.resolve(10_000)))
  periodic.start(0)
  await expect.poll(runs).toBe(1)
  periodic.wakeIn(0)
  await expect.poll(runs).toBe(2)
  let isStopped = false
  const stopped = periodic.stop().then(() => {
    isStopped = true
  })
  expect(isStopped).toBe(false)
  resolve(1)
  await stopped
  expect(runs()).toBe(2)
})

it('a run that fails is reported and followed by another', async () => {
  const errors: unknown[] = []
  const { periodic, runs } = counted(
    async run => {
      if (run === 1) throw new Error('no luck')
      return 10_000
    },
    error => {
      errors.push(error)
      return 1
    },
  )
  periodic.start(0)
  await expect.poll(runs).toBe(2)
  expect(errors).toEqual([new Error('no luck')])
})

it('an error report that fails does not end the runs', async () => {
  const fail = () => {
    throw new Error('no luck')
  }
  const { periodic, runs } = counted(async run => (run === 1 ? fail() : 10_000), fail, 1)
  periodic.start(0)
  await expect.poll(runs).toBeGreaterThan(1)
})

it('runs again when it is started after a stop', async () => {
  const { periodic, runs } = counted(async () => 10_000)
  periodic.start(0)
  await periodic.stop()
  periodic.start(1)
  await expect.poll(runs).toBe(1)
})
