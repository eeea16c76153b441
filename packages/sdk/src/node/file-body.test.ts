import { createHash, randomBytes } from 'node:crypto'
import { mkdtemp, open, readFile, rm, truncate, writeFile } from 'node:fs/promises'
import { createServer, type RequestListener } from 'node:http'
import type { AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { expect, onTestFinished, test } from 'vitest'
import { SandboxClient } from '../client.ts'
import type { Session } from '../session/session.ts'
import type { FetchLike } from '../transport/transport.ts'
import { fileBody, nodeFetch, saveTo } from './index.ts'

const CONTENT = randomBytes(5_000_001)
const sha = (data: Uint8Array) => createHash('sha256').update(data).digest('hex')

test('a file is uploaded unchanged, with its length', async () => {
  const { path } = await hostFile(CONTENT)
  const seen: unknown[] = []
  const session = await sessionOn(async (request, reply) => {
    const hash = createHash('sha256')
    for await (const piece of request) hash.update(piece)
    seen.push(request.headers['content-length'], hash.digest('hex'))
    reply.end(JSON.stringify({ ok: true, path: 'f', size: CONTENT.length }))
  })
  let sent = 0
  await session.files.upload('f', await fileBody(path, bytes => (sent += bytes)))
  expect(seen).toEqual([String(CONTENT.length), sha(CONTENT)])
  expect(sent).toBe(CONTENT.length)
  await session.files.upload('f', new Blob([CONTENT]))
  expect(seen.slice(2)).toEqual(seen.slice(0, 2))
})

test('an empty file is uploaded', async () => {
  const { path } = await hostFile(Buffer.alloc(0))
  const session = await sessionOn((request, reply) => {
    request.resume()
    reply.end(JSON.stringify({ length: request.headers['content-length'] }))
  })
  expect(await session.files.upload('f', await fileBody(path))).toEqual({ length: '0' })
})

test.each([
  ['kept connections', nodeFetch()],
  ["the web's fetch", null],
])(
  'over %s the upload of a file that became shorter fails with SOURCE_FAILED, and the server sees an aborted request',
  async (_, fetch) => {
    const { path } = await hostFile(CONTENT)
    const broken = Promise.withResolvers<void>()
    const session = await sessionOn(request => void request.resume().on('error', () => broken.resolve()), fetch)
    const body = await fileBody(path)
    await truncate(path, 1_000_000)
    const why = `it became shorter meanwhile, 1000000 bytes of ${CONTENT.length}`
    await expect(session.files.upload('f', body)).rejects.toMatchObject({ code: 'SOURCE_FAILED', detail: { path, why } })
    await broken.promise
  },
)

test('the upload of a file that was removed fails with SOURCE_FAILED', async () => {
  const { path } = await hostFile(CONTENT)
  const session = await sessionOn(request => void request.resume())
  const body = await fileBody(path)
  await rm(path)
  await expect(session.files.upload('f', body)).rejects.toMatchObject({ code: 'SOURCE_FAILED', detail: { path } })
})

test('a reply that arrives during the upload is returned', async () => {
  const { path } = await hostFile(Buffer.alloc(50_000_000))
  const error = { code: 'DISK_FULL', message: 'full', detail: {}, hint: '', request_id: 'r' }
  const session = await sessionOn((request, reply) => {
    request.once('data', () => {
      request.pause()
      reply.writeHead(507).end(JSON.stringify({ error }))
    })
  })
  await expect(session.files.upload('f', await fileBody(path))).rejects.toMatchObject({ code: 'DISK_FULL' })
})

test('a download is saved unchanged, also from a slow reader', async () => {
  const session = await sessionOn((_, reply) => void reply.end(CONTENT))
  const { path } = await hostFile(Buffer.alloc(0))
  for (const source of [
    session.files.download('f'),
    session.files.download('f').then(async function* (pieces) {
      for await (const piece of pieces) {
        await new Promise(setImmediate)
        yield piece
      }
    }),
  ]) {
    await using file = await open(path, 'w')
    await saveTo(file, await source)
    expect(sha(await readFile(path))).toBe(sha(CONTENT))
  }
})

test('pieces of a download that are kept do not change', async () => {
  const session = await sessionOn((_, reply) => void reply.end(CONTENT))
  const pieces: Uint8Array[] = []
  for await (const piece of await session.files.download('f')) pieces.push(piece)
  expect(sha(Buffer.concat(pieces))).toBe(sha(CONTENT))
})

async function hostFile(content: Uint8Array): Promise<{ path: string }> {
  const folder = await mkdtemp(join(tmpdir(), 'sdk-'))
  onTestFinished(() => rm(folder, { recursive: true }))
  const path = join(folder, 'file')
  await writeFile(path, content)
  return { path }
}

async function sessionOn(listener: RequestListener, fetch: FetchLike | null = nodeFetch()): Promise<Session> {
  const server = createServer(listener)
  await new Promise<void>(resolve => server.listen(0, '127.0.0.1', () => resolve()))
  onTestFinished(() => {
    server.close()
    server.closeAllConnections()
  })
  const { port } = server.address() as AddressInfo
  return new SandboxClient({ baseUrl: `http://127.0.0.1:${port}`, apiKey: 'k', ...(fetch ? { fetch } : {}) }).session('x')
}
