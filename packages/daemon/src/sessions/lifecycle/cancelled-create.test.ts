// A client that leaves while the image of its session is being prepared. The backend prepares until the test lets it finish or it is aborted.
import { expect, test } from 'vitest'
import { PlainChildBackend } from '../../backends/plain-child/backend.ts'
import { RUNNER_PATH } from '../../backends/plain-child/plain-child.fixture.ts'
import { daemonFixture, type TestDaemon, temporaryFolder, until } from '../../testing/daemon.fixture.ts'
import { Preparations } from './prepare-image.ts'

class SlowBackend extends PlainChildBackend {
  readonly begun: PromiseWithResolvers<void>[] = []
  stopped = 0

  override async prepare(_image: unknown, signal?: AbortSignal): Promise<void> {
    const work = Promise.withResolvers<void>()
    this.begun.push(work)
    signal?.addEventListener('abort', () => {
      this.stopped++
      work.reject(signal.reason)
    })
    await work.promise
  }
}

async function slowDaemon(): Promise<{ daemon: TestDaemon; backend: SlowBackend }> {
  const backend = new SlowBackend({ forTests: true, folder: await temporaryFolder(), runnerPath: RUNNER_PATH })
  return { daemon: await daemonFixture({ backends: () => [backend] }), backend }
}

/** A create that can be left. */
function create({ fetch }: TestDaemon, name: string, key?: string) {
  const client = new AbortController()
  const reply = fetch('/v1/sessions', {
    method: 'POST',
    headers: { 'content-type': 'application/json', ...(key ? { 'idempotency-key': key } : {}) },
    body: JSON.stringify({ name }),
    signal: client.signal,
  }).then(
    ({ status }) => status,
    () => 'left' as const,
  )
  return { reply, leave: () => client.abort() }
}

const total = async ({ call }: TestDaemon) => ((await call('GET', '/v1/sessions')).body as { total: number }).total

test.each([undefined, 'key-1'])('a create with the key %s is aborted when its client leaves, and can be repeated', async key => {
  const { daemon, backend } = await slowDaemon()
  const first = create(daemon, 'box', key)
  await until(() => backend.begun.length === 1)
  first.leave()
  expect(await first.reply).toBe('left')
  await until(() => backend.stopped === 1)
  await until(() => daemon.logged.some(({ msg }) => msg === 'the client closed the connection before its reply'))
  expect(daemon.logged.filter(({ level }) => level === 'error')).toEqual([])
  expect(await total(daemon)).toBe(0)
  const second = create(daemon, 'box', key)
  await until(() => backend.begun.length === 2)
  backend.begun[1]?.resolve()
  expect(await second.reply).toBe(201)
  expect(await total(daemon)).toBe(1)
})

test('a start whose image is not ready is aborted when its client leaves, and the session is unchanged', async () => {
  const { daemon, backend } = await slowDaemon()
  const made = create(daemon, 'box')
  await until(() => backend.begun.length === 1)
  backend.begun[0]?.resolve()
  await made.reply
  await daemon.call('POST', '/v1/sessions/box/stop')
  const client = new AbortController()
  const left = daemon.fetch('/v1/sessions/box/start', { method: 'POST', signal: client.signal }).catch(() => 'left')
  await until(() => backend.begun.length === 2)
  client.abort()
  expect(await left).toBe('left')
  await until(() => backend.stopped === 1)
  expect((await daemon.call('GET', '/v1/sessions/box')).body).toMatchObject({ status: 'stopped', reason: 'requested' })
  const again = daemon.call('POST', '/v1/sessions/box/start')
  await until(() => backend.begun.length === 3)
  backend.begun[2]?.resolve()
  expect(await again).toMatchObject({ status: 200, body: { status: 'running' } })
})

test('a create that is repeated with its key succeeds although the first request is aborted', async () => {
  const { daemon, backend } = await slowDaemon()
  const lost = create(daemon, 'box', 'key-2')
  await until(() => backend.begun.length === 1)
  const again = create(daemon, 'box', 'key-2')
  lost.leave()
  await lost.reply
  let status: number | string | undefined
  const answered = again.reply.then(given => {
    status = given
  })
  await until(() => {
    for (const { resolve } of backend.begun) resolve()
    return status
  })
  await answered
  expect(status).toBe(201)
  expect(await total(daemon)).toBe(1)
})

test('a caller that leaves does not disturb others that wait for the same preparation, and a later one starts after an aborted one has ended', async () => {
  const preparations = new Preparations()
  const session = { id: 'sess_0', name: 'box', backend: 'b', image: 'i' }
  const about = () => ({ session, startedAt: 0 })
  const done: string[] = []
  const first = Promise.withResolvers<void>()
  const [one, two, three] = [new AbortController(), new AbortController(), new AbortController()]
  const work = async (signal: AbortSignal) => {
    await first.promise
    done.push(signal.aborted ? 'aborted' : 'whole')
  }
  const never = () => Promise.reject(new Error('the work is shared'))
  const joined = [preparations.join('k', about(), work, one.signal), preparations.join('k', about(), never, two.signal)]
  one.abort()
  await expect(joined[0]).rejects.toThrow('abort')
  first.resolve()
  await joined[1]
  expect(done).toEqual(['whole'])

  const second = Promise.withResolvers<void>()
  const stubborn = async (signal: AbortSignal) => {
    await second.promise
    done.push(signal.aborted ? 'aborted' : 'whole')
  }
  const left = preparations.join('k', about(), stubborn, three.signal)
  three.abort()
  await expect(left).rejects.toThrow('abort')
  const next = preparations.join('k', about(), async () => void done.push('next'), new AbortController().signal)
  second.resolve()
  await next
  expect(done).toEqual(['whole', 'aborted', 'next'])
})
