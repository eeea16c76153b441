// An engine that takes calls and does not answer.
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { afterAll, expect, it, onTestFinished } from 'vitest'
import { boxOf, specOf } from '../conformance/subject.ts'
import { openDocker } from './backend.ts'
import { testEngine } from './engine.fixture.ts'

const runnerPath = fileURLToPath(new URL('../../../../../runner/bin/runner', import.meta.url))
const engine = await testEngine()
const dataDir = mkdtempSync(join(tmpdir(), 'sandglass-docker-'))
afterAll(async () => {
  await engine.stop()
  rmSync(dataDir, { recursive: true, force: true })
})

const options = { dataDir, runnerPath, endpoint: engine.endpoint }
const subject = { open: async () => openDocker(options), starter: [], allowUnenforced: ['disk'], strongest: 'sandbox' } as const
const soon = () => AbortSignal.timeout(30_000)

it('is told of as such, keeps nobody waiting for ever, and is used again when it answers', { timeout: 60_000 }, async () => {
  const backend = openDocker(options)
  const spec = specOf(subject)
  const box = boxOf(await backend.start(spec, soon()), spec, subject)
  const wake = engine.hang()
  onTestFinished(wake)
  const why = `the Docker engine at ${engine.endpoint} does not answer`
  const fresh = openDocker(options)
  const [probe, recovered, stats, started, pruned] = await Promise.allSettled([
    fresh.probe(),
    openDocker(options).recover(),
    box.machine.stats(),
    openDocker(options).start(specOf(subject), soon()),
    // It was there a moment ago, as far as this one knows.
    backend.pruneImages?.([], new Set()),
  ])
  expect(probe).toMatchObject({ value: { available: false, why, fix: expect.stringContaining('restart it') } })
  expect(recovered).toMatchObject({ reason: { message: expect.stringContaining(why) } })
  expect(stats).toMatchObject({ reason: { message: why } })
  expect(started).toMatchObject({ reason: { code: 'BACKEND_UNAVAILABLE', message: expect.stringContaining(why) } })
  expect(pruned).toMatchObject({ status: 'fulfilled' })
  wake()
  expect(await fresh.probe()).toMatchObject({ available: true })
  expect((await box.run('echo still here')).output).toBe('still here')
  box.link.close()
  await box.machine.destroy()
})
