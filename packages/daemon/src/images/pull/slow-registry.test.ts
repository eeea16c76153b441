// SECURITY: a registry that sends a few bytes now and then is never idle. Deadlines keep it from holding a pull open for ever.
import type { ServerResponse } from 'node:http'
import { expect, it, onTestFinished } from 'vitest'
import { parseReference } from '../reference.ts'
import { Registry } from '../registry/registry.ts'
import { FakeRegistry } from '../testing/fake-registry.fixture.ts'
import { blobDeadlineMs, fetchBlob } from './fetch-blob.ts'

const KiB = 1024
const digest = `sha256:${'0'.repeat(64)}`
const signal = new AbortController().signal

/** A client of a registry that sends one byte every few milliseconds and never ends a response. */
async function slowRegistry(documentMs?: number): Promise<Registry> {
  const server = await new FakeRegistry().listen()
  server.trick = (_request, response) => {
    response.writeHead(200)
    drip(response)
    return true
  }
  const registry = new Registry(parseReference(`${server.host}/app:1`), { [server.host]: { plain_http: true } }, documentMs)
  onTestFinished(() => registry.close())
  return registry
}

function drip(response: ServerResponse): void {
  const timer = setInterval(() => response.write(' '), 5)
  response.once('close', () => clearInterval(timer))
}

it('a manifest or configuration that never ends fails at a deadline', async () => {
  const registry = await slowRegistry(300)
  await expect(registry.manifest('1', signal)).rejects.toMatchObject({
    code: 'REGISTRY_FAILED',
    message: expect.stringContaining('manifests did not arrive within 0.3 seconds'),
  })
  await expect(registry.smallBlob(digest, signal)).rejects.toMatchObject({ code: 'REGISTRY_FAILED' })
})

it('a layer whose average rate is too low fails and is not retried', async () => {
  const registry = await slowRegistry()
  let came = 0
  const all = async () => {
    for await (const piece of fetchBlob(registry, { image: 'app:1', digest, size: KiB * KiB }, 0, signal, 3000))
      came += piece.length
  }
  await expect(all()).rejects.toMatchObject({
    code: 'REGISTRY_FAILED',
    message: expect.stringMatching(/only \d+ of 1048576 bytes arrived in 3 seconds/),
  })
  expect(came).toBeGreaterThan(0)
})

it('the deadline of a layer is a minute plus a second per 16 KiB', () => {
  expect(blobDeadlineMs(0)).toBe(60_000)
  expect(blobDeadlineMs(160 * KiB)).toBe(70_000)
  expect(blobDeadlineMs(1e15)).toBeLessThan(2 ** 31)
})
