// SECURITY: a registry that sends a little now and then is never idle. It may not hold a pull open for as long as it likes.
import type { ServerResponse } from 'node:http'
import { expect, it, onTestFinished } from 'vitest'
import { parseReference } from '../reference.ts'
import { Registry } from '../registry/registry.ts'
import { FakeRegistry } from '../testing/fake-registry.fixture.ts'
import { blobPatienceMs, fetchBlob } from './fetch-blob.ts'

const KiB = 1024
const digest = `sha256:${'0'.repeat(64)}`
const signal = new AbortController().signal

/** Of a registry that sends a byte of everything it is asked for every few milliseconds, and never ends. */
async function drips(documentMs?: number): Promise<Registry> {
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

it('a manifest or a configuration that never ends is given up', async () => {
  const registry = await drips(300)
  await expect(registry.manifest('1', signal)).rejects.toMatchObject({
    code: 'REGISTRY_FAILED',
    message: expect.stringContaining('manifests did not come within 0.3 seconds'),
  })
  await expect(registry.smallBlob(digest, signal)).rejects.toMatchObject({ code: 'REGISTRY_FAILED' })
})

it('a layer that comes too slowly as a whole is given up, and not asked for again', async () => {
  const registry = await drips()
  let came = 0
  const all = async () => {
    for await (const piece of fetchBlob(registry, { image: 'app:1', digest, size: KiB * KiB }, 0, signal, 300))
      came += piece.length
  }
  await expect(all()).rejects.toMatchObject({
    code: 'REGISTRY_FAILED',
    message: expect.stringMatching(/only \d+ of 1048576 bytes came in 0.3 seconds/),
  })
  expect(came).toBeGreaterThan(0)
})

it('a layer has a minute, and a second for each 16 KiB of it', () => {
  expect(blobPatienceMs(0)).toBe(60_000)
  expect(blobPatienceMs(160 * KiB)).toBe(70_000)
  expect(blobPatienceMs(1e15)).toBeLessThan(2 ** 31)
})
