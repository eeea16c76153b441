// An engine that accepts calls and does not answer.
import { symlinkSync } from 'node:fs'
import { join } from 'node:path'
import { expect, it, onTestFinished } from 'vitest'
import { daemonFixture, plainChild, temporaryFolder, until } from '../../../testing/daemon.fixture.ts'
import { boxOf, specOf } from '../../conformance/subject.ts'
import { openDocker } from '../backend.ts'
import { dockerContext, runnerPath } from '../context.fixture.ts'

const { engine, options, subject } = await dockerContext()
const soon = () => AbortSignal.timeout(30_000)

it('calls to an engine that hangs fail after their deadline, and it is used again when it answers', {
  timeout: 120_000,
}, async () => {
  const backend = openDocker(options)
  const spec = specOf(subject)
  const box = boxOf(await backend.start(spec, soon()), spec, subject)
  // Its cached probe says that the engine is available, also while the engine hangs.
  const probed = openDocker(options)
  await probed.probe()
  const wake = engine.hang()
  onTestFinished(wake)
  const why = `the Docker engine at ${engine.endpoint} does not answer`
  const fresh = openDocker(options)
  const asked = performance.now()
  const [probe, recovered, stats, started, pruned, late] = await Promise.allSettled([
    fresh.probe(),
    openDocker(options).recover(),
    box.machine.stats(),
    openDocker(options).start(specOf(subject), soon()),
    probed.pruneImages?.([], new Set()),
    probed.start(specOf(subject), soon()),
  ])
  expect(probe).toMatchObject({ value: { available: false, why, fix: expect.stringContaining('restart it') } })
  expect(recovered).toMatchObject({ reason: { message: expect.stringContaining(why) } })
  expect(stats).toMatchObject({ reason: { code: 'BACKEND_UNAVAILABLE', detail: { why } } })
  expect(started).toMatchObject({ reason: { code: 'BACKEND_UNAVAILABLE', message: expect.stringContaining(why) } })
  expect(pruned).toMatchObject({ status: 'fulfilled' })
  expect(late).toMatchObject({ reason: { code: 'START_FAILED', detail: { why } } })
  expect(performance.now() - asked).toBeLessThan(30_000)
  wake()
  expect(await fresh.probe()).toMatchObject({ available: true })
  expect((await box.run('echo still here')).output).toBe('still here')
  box.link.close()
  await box.machine.destroy()
})

it.each(['does not exist', 'hangs'])(
  'an engine that %s at the start of a daemon keeps its sessions, and others are usable',
  { timeout: 120_000 },
  async how => {
    const folder = await temporaryFolder()
    const [machines, ownDir] = [await temporaryFolder(), await temporaryFolder()]
    const start = (endpoint: string) =>
      daemonFixture({
        dataDir: ownDir,
        flags: { 'backends-docker-allow-unenforced': ['disk'] },
        backends: path => [plainChild(machines), openDocker({ dataDir: path, runnerPath, endpoint })],
      })
    const first = await start(engine.endpoint)
    const near = await first.create()
    const [docker, frozen, stopped, ended] = await Promise.all([1, 2, 3, 4].map(() => first.create({ backend: 'docker' })))
    await first.call('POST', `/v1/sessions/${frozen?.id}/pause`)
    await first.call('POST', `/v1/sessions/${stopped?.id}/stop`)
    const path = `/v1/sessions/${docker?.id}`
    await first.call('POST', `${path}/exec`, { cmd: 'export KEPT=yes' })
    await first.close()

    const late = join(folder, 'late.sock')
    const [endpoint, wake] =
      how === 'hangs'
        ? [engine.endpoint, engine.hang()]
        : [`unix://${late}`, () => symlinkSync(engine.endpoint.replace('unix://', ''), late)]
    const second = await start(endpoint).finally(() => how === 'hangs' && onTestFinished(wake))
    expect((await second.call('POST', `/v1/sessions/${near.id}/exec`, { cmd: 'echo near' })).body).toMatchObject({
      output: 'near\n',
    })
    const unavailable = { error: { code: 'BACKEND_UNAVAILABLE', message: expect.stringMatching(/engine.* answer/) } }
    expect((await second.call('POST', `${path}/exec`, { cmd: 'true' })).body).toMatchObject(unavailable)
    expect((await second.call('POST', `/v1/sessions/${frozen?.id}/resume`)).body).toMatchObject(unavailable)
    expect((await second.call('GET', path)).body).toMatchObject({ status: 'running' })
    expect((await second.call('DELETE', `/v1/sessions/${ended?.id}`)).body).toMatchObject({ status: 'terminated' })

    wake()
    await until(async () => (await second.call('POST', `${path}/exec`, { cmd: 'true' })).status === 200, 30_000)
    expect((await second.call('POST', `${path}/exec`, { cmd: 'echo $KEPT' })).body).toMatchObject({ output: 'yes\n' })
    expect((await second.call('POST', `/v1/sessions/${frozen?.id}/resume`)).body).toMatchObject({ status: 'running' })
    expect((await second.call('GET', `/v1/sessions/${stopped?.id}`)).body).toMatchObject({ status: 'stopped' })
    expect((await second.call('POST', `/v1/sessions/${stopped?.id}/start`)).body).toMatchObject({ status: 'running' })
  },
)
