// SECURITY: instructions that the engine parses differently. The engine of this test has a private image, and a server that builds must not reach.
import { once } from 'node:events'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { Readable } from 'node:stream'
import { text } from 'node:stream/consumers'
import Docker from 'dockerode'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { testEngine } from '../../../backends/docker/engine/engine.fixture.ts'
import { buildDaemon, smallImage } from '../../testing/build-daemon.fixture.ts'
import { imageOf, savedArchive, sha256 } from '../../testing/image.fixture.ts'

const engine = await testEngine()
const client = new Docker({ socketPath: engine.endpoint.replace('unix://', '') })
const asked: string[] = []
const server = createServer((request, response) => {
  asked.push(request.url ?? '')
  response.end('fetched')
}).listen(0, '127.0.0.1')
await once(server, 'listening')
const address = `http://127.0.0.1:${(server.address() as AddressInfo).port}/x`
const base = await smallImage()

beforeAll(async () => {
  const image = await smallImage({ name: 'secret', content: 'of another user' })
  const archive = await savedArchive([{ image, tags: ['private:latest'] }])
  await text(await client.loadImage(Readable.from([archive])))
  expect(await client.getImage('private:latest').inspect()).toMatchObject({ RepoTags: ['private:latest'] })
})
afterAll(async () => {
  server.close()
  await engine.stop()
})

async function build(dockerfile: string, onbuild: readonly string[] = [], rewrite = (config: string) => config) {
  asked.length = 0
  const daemon = await buildDaemon(engine, { flags: { 'allowed-images': ['small:1'] } })
  const image = imageOf(base.layers, { onbuild })
  const config = Buffer.from(rewrite(image.config.toString()))
  await daemon.importImage({ ...image, config, id: sha256(config) }, 'small:1')
  const { done, error } = await daemon.build({ Dockerfile: dockerfile })
  expect({ done: done?.image.id, asked }).toEqual({ done: undefined, asked: [] })
  return error
}

describe('a build cannot use images of the engine or fetch URLs', () => {
  it.each([
    ['a backslash in a flag', 'COPY --fr\\om=private /secret /stolen'],
    ['quotes in a flag', 'COPY --fr"om=private" /secret /stolen'],
    ['a byte that the engine treats as a space', 'COPY --chown=0à--from=private /secret /stolen'],
    ['an instruction of two lines', `A\\\nDD ${address} /fetched`],
    ['flags before a list', `ADD --chown=0:0 ["${address}","/fetched"]`],
  ])('through ONBUILD of a base with %s', async (_, instruction) => {
    expect(await build('FROM small:1\n', [instruction])).toMatchObject({
      code: 'INVALID_REQUEST',
      message: expect.stringContaining('ONBUILD of small:1'),
    })
  })

  it.each([
    ['in another case', (config: string) => config.replace('"OnBuild"', '"onbuild"')],
    ['escaped, in settings in another case', (config: string) => config.replace('"config"', '"Config":null,"c\\u006fnfiG"')],
    ['before a duplicate of the settings', (config: string) => config.replace(/}$/, ',"config":{"Env":[]}}')],
  ])('through ONBUILD of a base, written %s', async (_, rewrite) => {
    const error = await build('FROM small:1\n', [`ADD ${address} /fetched`], rewrite)
    expect(error?.code).toMatch(/INVALID_REQUEST|IMAGE_INVALID/)
  })

  it.each([
    ['quotes in a flag', 'FROM small:1\nCOPY --fr"om"=private /secret /stolen\n', 'INVALID_REQUEST'],
    ['a backslash in a flag', 'FROM small:1\nCOPY --fr\\om=private /secret /stolen\n', 'INVALID_REQUEST'],
    ['the name of the current stage', 'FROM small:1 AS private\nCOPY --from=private /secret /stolen\n', 'IMAGE_NOT_ALLOWED'],
    ['flags before a list', `FROM small:1\nADD --chown=0:0 ["${address}","/fetched"]\n`, 'INVALID_REQUEST'],
  ])('through a Dockerfile with %s', async (_, dockerfile, code) => {
    expect(await build(dockerfile)).toMatchObject({ code })
  })
})
