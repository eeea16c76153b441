import { describe, expect, it } from 'vitest'
import type { Backend } from '../../backends/backend.ts'
import { daemonFixture, plainChild, temporaryFolder, until } from '../../testing/daemon.fixture.ts'
import { sweep } from '../lease/reaper.ts'

/** The plain backend, whose removals fail while `refuses` is set, do nothing while `forgets` is, and wait for `gate`. */
async function stubborn() {
  const backend = plainChild(await temporaryFolder())
  const moods = { refuses: false, forgets: false, gate: Promise.resolve() }
  const discard = backend.discard.bind(backend)
  const wrapped: Backend = Object.assign(backend, {
    discard: async (id: string) => {
      await moods.gate
      if (moods.refuses) throw new Error('the disk is busy')
      if (!moods.forgets) await discard(id)
    },
  })
  return { moods, backend: wrapped }
}

describe('a machine that cannot be removed', () => {
  it('is reported by DELETE and by the session until a sweep has removed it', async () => {
    const { moods, backend } = await stubborn()
    const daemon = await daemonFixture({ backends: () => [backend] })
    const { id } = await daemon.create()
    moods.refuses = true
    const told = { status: 'terminated', error_message: expect.stringContaining('the disk is busy') }
    expect((await daemon.call('DELETE', `/v1/sessions/${id}`)).body).toMatchObject(told)
    expect((await daemon.call('GET', `/v1/sessions/${id}`)).body).toMatchObject(told)
    expect(daemon.logged).toContainEqual(expect.objectContaining({ level: 'error', sessionId: id }))
    await sweep(daemon.context)
    expect((await daemon.call('GET', `/v1/sessions/${id}`)).body).toMatchObject(told)
    moods.refuses = false
    await sweep(daemon.context)
    expect((await daemon.call('GET', `/v1/sessions/${id}`)).body).toMatchObject({ status: 'terminated', error_message: null })
    expect(await backend.sessionIds()).toEqual([])
  })

  it('keeps its session through a purge, and a second DELETE tries again', async () => {
    const { moods, backend } = await stubborn()
    const daemon = await daemonFixture({ backends: () => [backend] })
    const { id } = await daemon.create()
    moods.refuses = true
    await daemon.call('DELETE', `/v1/sessions/${id}?purge=true`)
    expect((await daemon.call('GET', `/v1/sessions/${id}`)).status).toBe(200)
    moods.refuses = false
    await daemon.call('DELETE', `/v1/sessions/${id}?purge=true`)
    expect((await daemon.call('GET', `/v1/sessions/${id}`)).status).toBe(404)
    expect(await backend.sessionIds()).toEqual([])
  })

  it('because its records are lost is still treated as running', async () => {
    const { moods, backend } = await stubborn()
    const daemon = await daemonFixture({ backends: () => [backend] })
    const { id } = await daemon.create()
    moods.forgets = true
    expect((await daemon.call('DELETE', `/v1/sessions/${id}`)).body).toMatchObject({
      error_message: expect.stringContaining('still runs'),
    })
    moods.forgets = false
  })

  it('does not prevent the removal of others', async () => {
    const { moods, backend } = await stubborn()
    const daemon = await daemonFixture({ backends: () => [backend] })
    const ids = [(await daemon.create()).id, (await daemon.create()).id]
    moods.refuses = true
    for (const id of ids) await daemon.call('DELETE', `/v1/sessions/${id}`)
    expect([...daemon.context.leftovers.keys()]).toEqual(ids)
    const discard = backend.discard
    Object.assign(backend, { discard: (id: string) => (id === ids[0] ? Promise.reject(new Error('busy')) : discard(id)) })
    moods.refuses = false
    await sweep(daemon.context)
    expect([...daemon.context.leftovers.keys()]).toEqual([ids[0]])
    Object.assign(backend, { discard })
  })

  it('does not prevent the next daemon from answering', async () => {
    const { moods, backend } = await stubborn()
    const dataDir = await temporaryFolder()
    const first = await daemonFixture({ dataDir, backends: () => [backend] })
    const { id } = await first.create()
    moods.refuses = true
    await first.call('DELETE', `/v1/sessions/${id}`)
    await first.close()
    moods.refuses = false
    const { promise, resolve } = Promise.withResolvers<void>()
    moods.gate = promise
    const second = await daemonFixture({ dataDir, backends: () => [backend] })
    expect((await second.call('GET', '/v1/sessions')).status).toBe(200)
    expect(await backend.sessionIds()).toEqual([id])
    resolve()
    await until(async () => (await backend.sessionIds()).length === 0)
  })
})
