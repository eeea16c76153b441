import { once } from 'node:events'
import { type ClientRequest, type IncomingMessage, request } from 'node:http'
import type { AddressInfo } from 'node:net'
import { text } from 'node:stream/consumers'
import { LIMITS } from '@sandglass/contract'
import { fastify } from 'fastify'
import { describe, expect, it, onTestFinished } from 'vitest'
import { Semaphore } from '../../lib/semaphore.ts'
import { daemonFixture, KEY } from '../../testing/daemon.fixture.ts'
import { LargeBodies } from './large-bodies.ts'

const MiB = 1024 * 1024
const WAIT_MS = 20
const AUTH = { authorization: `Bearer ${KEY}` }

/** Sends the beginning of a JSON body: with its length declared, or without one in chunks. */
function begin(url: string, declared: number | undefined, sent: string, headers = {}): ClientRequest {
  const length = declared === undefined ? {} : { 'content-length': declared }
  const call = request(url, { method: 'POST', headers: { ...headers, ...length, 'content-type': 'application/json' } })
  call.on('error', () => undefined)
  call.write(sent)
  return call
}

/** A server with a budget of its own that answers fs/write with the length of the body. */
async function server(budget: Semaphore, waitMs = WAIT_MS): Promise<string> {
  const bodies = new LargeBodies(budget, waitMs)
  const app = fastify({ bodyLimit: LIMITS.json_body_bytes.max, forceCloseConnections: true })
  app.addHook('preParsing', (request, response, payload) => bodies.reserve(request, response, payload))
  app.addContentTypeParser('application/json', { parseAs: 'string' }, (_request, body, done) => done(null, body.length))
  app.setErrorHandler((error: { code?: string }, _request, response) => response.code(429).send({ code: error.code }))
  app.post('/', { config: { name: 'fsWrite' } }, async ({ body }) => ({ length: body }))
  await app.listen({ host: '127.0.0.1', port: 0 })
  onTestFinished(() => app.close())
  return `http://127.0.0.1:${(app.server.address() as AddressInfo).port}/`
}

async function answer(call: ClientRequest): Promise<unknown> {
  const [response] = (await once(call, 'response')) as [IncomingMessage]
  return JSON.parse(await text(response))
}

describe('the memory of large bodies', () => {
  it('is refused to a request that has waited too long for it', async () => {
    const budget = new Semaphore(10 * MiB)
    const url = await server(budget)
    const first = begin(url, 8 * MiB, 'x')
    await expect.poll(() => budget.taken).toBe(8 * MiB)
    expect(await answer(begin(url, 5 * MiB, 'x'.repeat(5 * MiB)).end())).toEqual({ code: 'TOO_MANY_WAITING' })
    first.destroy()
    await expect.poll(() => budget.taken).toBe(0)
    expect(await answer(begin(url, 5 * MiB, 'x'.repeat(5 * MiB)).end())).toEqual({ length: 5 * MiB })
  })

  it('is reserved for a body without a declared length once it is large', async () => {
    const budget = new Semaphore(10 * MiB)
    const url = await server(budget)
    const first = begin(url, undefined, 'x'.repeat(6 * MiB))
    await expect.poll(() => budget.taken).toBeGreaterThanOrEqual(6 * MiB)
    expect(await answer(begin(url, undefined, 'x'.repeat(5 * MiB)).end())).toEqual({ code: 'TOO_MANY_WAITING' })
    expect(await answer(begin(url, undefined, 'x'.repeat(1 * MiB)).end())).toEqual({ length: 1 * MiB })
    expect(await answer(first.end())).toEqual({ length: 6 * MiB })
    await expect.poll(() => budget.taken).toBe(0)
  })

  it('is given to several bodies without a declared length one after another', async () => {
    const url = await server(new Semaphore(LIMITS.json_body_bytes.max), 20_000)
    const calls = [1, 2, 3].map(() => begin(url, undefined, 'x'.repeat(2 * MiB)))
    const replies = calls.map(call => answer(call.end('x'.repeat(2 * MiB))))
    expect(await Promise.all(replies)).toEqual(calls.map(() => ({ length: 4 * MiB })))
  })

  it('is not reserved by bodies without a declared length that have only begun', async () => {
    const daemon = await daemonFixture()
    const { id } = await daemon.create()
    const path = `/v1/sessions/${id}/fs/write`
    const begun = [1, 2, 3].map(() => begin(daemon.url + path, undefined, '{', AUTH))
    await Promise.all(begun.map(call => once(call, 'socket')))
    const large = await daemon.call('POST', path, JSON.stringify({ path: 'large', text: 'x'.repeat(20 * MiB) }))
    expect(large.status).toBe(200)
    const replies = begun.map((call, i) => answer(call.end(`"path":"small-${i}","text":"x"}`)))
    expect(await Promise.all(replies)).toMatchObject(begun.map(() => ({ ok: true, size: 1 })))
  })

  it('makes file bodies that exceed it wait, and no other request', async () => {
    const daemon = await daemonFixture()
    const { id } = await daemon.create()
    const path = `/v1/sessions/${id}/fs/write`
    const begun = [1, 2].map(() => begin(daemon.url + path, 90 * MiB, '{', { ...AUTH, expect: '100-continue' }))
    // Both have come before the third.
    await Promise.all(begun.map(call => once(call, 'continue')))
    const waits = daemon.call('POST', path, JSON.stringify({ path: 'large', text: 'x'.repeat(20 * MiB) }))
    const small = await daemon.call('POST', path, { path: 'small', text: 'x' })
    expect(small.status).toBe(200)
    expect(await daemon.call('GET', `/v1/sessions/${id}/fs/stat?path=large`)).toMatchObject({ status: 404 })
    for (const call of begun) call.destroy()
    expect((await waits).status).toBe(200)
    // A client that leaves is no failure of the daemon.
    expect(daemon.logged.filter(({ level }) => level === 'error')).toEqual([])
  })
})
