// A web page from a server of its own, and what it reports back.
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { text } from 'node:stream/consumers'
import { build } from 'esbuild'

export type WebPage = AsyncDisposable & {
  port: number
  /** What the page found, once it has posted it. */
  report(): unknown
}

/** `entry` is bundled for browsers. It finds `target()` as a global of that name and posts JSON to /report. */
export async function serveWebPage(entry: string, target: () => unknown): Promise<WebPage> {
  const { outputFiles } = await build({ entryPoints: [entry], bundle: true, platform: 'browser', format: 'esm', write: false })
  const script = outputFiles[0]?.text ?? ''
  let report: unknown
  const server = createServer(async (request, reply) => {
    if (request.url === '/page.js') reply.setHeader('content-type', 'text/javascript').end(script)
    else if (request.url === '/report') {
      report = JSON.parse(await text(request))
      reply.end()
    } else if (request.url === '/') {
      reply.setHeader('content-type', 'text/html; charset=utf-8')
      reply.end(`<script>globalThis.target = ${JSON.stringify(target())}</script><script type="module" src="/page.js"></script>`)
    } else reply.writeHead(404).end()
  })
  await new Promise<void>(resolve => server.listen(0, '127.0.0.1', resolve))
  return {
    port: (server.address() as AddressInfo).port,
    report: () => report,
    async [Symbol.asyncDispose]() {
      server.closeAllConnections()
      await new Promise(resolve => server.close(resolve))
    },
  }
}
