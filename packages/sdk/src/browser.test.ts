import { fileURLToPath } from 'node:url'
import vm from 'node:vm'
import { build } from 'esbuild'
import { expect, test } from 'vitest'
import { json, SESSION, startServer } from './transport/server.fixture.ts'

test('a browser bundle needs nothing of Node, carries no zod and works with web globals alone', async () => {
  const { outputFiles, metafile } = await build({
    entryPoints: [fileURLToPath(new URL('./index.ts', import.meta.url))],
    bundle: true,
    platform: 'browser',
    format: 'iife',
    globalName: 'sandglass',
    write: false,
    metafile: true,
  })
  const code = outputFiles[0]?.text ?? ''
  expect(code).not.toMatch(/require\(|from ['"]node:/)
  expect(Object.keys(metafile.inputs).filter(path => path.includes('node_modules') || path.includes('zod'))).toEqual([])
  await using server = await startServer((request, reply) => {
    if (request.url?.includes('/exec/stream')) reply.end('event: done\ndata: {"exit_code":5}\n\n')
    else json(reply, 200, SESSION)
  })
  const web = {
    fetch,
    WebSocket,
    URLSearchParams,
    TextEncoder,
    TextDecoder,
    AbortController,
    ReadableStream,
    Response,
    crypto,
    atob,
    btoa,
    setTimeout,
    clearTimeout,
  }
  const result = await vm.runInNewContext(
    `${code}
    (async () => {
      const client = new sandglass.SandboxClient({ baseUrl: ${JSON.stringify(server.url)}, apiKey: 'k' })
      const session = await client.createSession({ memoryMb: 512 })
      return [session.name, (await session.execStream('true').result).exitCode]
    })()`,
    web,
  )
  expect([...result]).toEqual([SESSION.name, 5])
})
