// Two creates that wait for different images at the same time.
import { expect, it } from 'vitest'
import type { Backend } from '../../backends/backend.ts'
import { daemonFixture, plainChild, temporaryFolder, until } from '../../testing/daemon.fixture.ts'

/** Its images are prepared when `ready` resolves. */
async function slowBackend(name: string) {
  const ready = Promise.withResolvers<void>()
  const backend: Backend = plainChild(await temporaryFolder())
  backend.prepare = async (_image, _signal, report) => {
    report?.(`unpacking for ${name}`)
    await ready.promise
  }
  return { backend: Object.defineProperty(backend, 'name', { value: name }), ready }
}

it('two creates at once each show their own progress', async () => {
  const [oci, docker] = [await slowBackend('oci'), await slowBackend('docker')]
  const daemon = await daemonFixture({
    flags: { 'backends-docker-allow-unenforced': ['cpu,memory,pids,disk'] },
    backends: () => [oci.backend, docker.backend],
  })
  const progress = async (query: string) =>
    ((await daemon.call('GET', `/v1/preparations?${query}`)).body as { items: object[] }).items
  const create = (name: string, backend: string) =>
    daemon.call('POST', '/v1/sessions', { name, backend }, { 'idempotency-key': `key-of-${name}` })

  const creates = [create('first', 'oci'), create('second', 'docker')]
  await until(async () => (await progress('')).length === 2)
  expect(await progress('idempotency_key=key-of-first')).toMatchObject([{ session_name: 'first', step: 'unpacking for oci' }])
  expect(await progress('idempotency_key=key-of-second')).toMatchObject([
    { session_name: 'second', step: 'unpacking for docker' },
  ])
  expect(await progress('session=second')).toMatchObject([{ session_name: 'second', backend: 'docker' }])
  expect(await progress('idempotency_key=no-such-key')).toEqual([])

  docker.ready.resolve()
  expect((await creates[1])?.status).toBe(201)
  expect(await progress('')).toMatchObject([{ session_name: 'first' }])
  oci.ready.resolve()
  expect((await creates[0])?.status).toBe(201)
  expect(await progress('')).toEqual([])
})

it('two creates that share the preparation of an image are both shown, and so is a start', async () => {
  const { backend, ready } = await slowBackend('oci')
  const daemon = await daemonFixture({ backends: () => [backend] })
  const names = async () => {
    const { items } = (await daemon.call('GET', '/v1/preparations')).body as { items: { session_name: string }[] }
    return items.map(({ session_name }) => session_name).toSorted()
  }
  const creates = ['a', 'b'].map(name => daemon.call('POST', '/v1/sessions', { name, start: false }))
  await until(async () => (await names()).join() === 'a,b')
  ready.resolve()
  await Promise.all(creates)

  const again = Promise.withResolvers<void>()
  backend.prepare = async (_image, _signal, report) => {
    report?.('loading')
    await again.promise
  }
  const start = daemon.call('POST', '/v1/sessions/b/start')
  await until(async () => (await names()).join() === 'b')
  again.resolve()
  expect((await start).status).toBe(200)
})
